"""Console output, files and figures of a run."""

import dataclasses
import json
import re
from unittest import mock

import keras
import numpy as np
import pandas
import pytest
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from small_runs import TRAINER, build_model, train_small

from dann import selection
from dann.adaptation import DANN, SourceOnly
from dann.config.schema import SelectionConfig
from dann.data import DomainPair, arrays, csv_table
from dann.data.probes import TOO_FEW_EXAMPLES as TOO_FEW
from dann.data.probes import probe_domains
from dann.training import report, run_figures
from dann.training.devices import describe_hardware
from dann.training.evaluation import compute_accuracies, predict_target
from dann.training.run_callbacks import EpochLines
from dann.training.run_directory import RunDirectory
from dann.training.sample_figure import save_samples

ACCURACIES = "source/accuracy", "target/accuracy"
COMPILED = dataclasses.replace(TRAINER, run_eagerly=False)


@pytest.fixture
def figures(monkeypatch):
    """Figures that are drawn are appended here, instead of written to files."""
    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: saved.append(figure))
    return saved


def test_run_takes_the_configured_steps(domains, tmp_path, capsys):
    model, baseline = build_model(DANN, trainer=COMPILED), build_model(SourceOnly, trainer=COMPILED)
    summary = train_small(tmp_path, domains, model, baseline, trainer=COMPILED)
    assert int(model.optimizer.iterations) == int(baseline.optimizer.iterations) == 6
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (summary["steps"], summary["seed"]) == (6, 1)
    assert summary["hardware"] == describe_hardware()
    assert summary["backend"] == keras.backend.backend()
    output = capsys.readouterr().out
    assert report.format_accuracies(summary) in output
    assert "Trains two models: source only, then DANN\n" in output
    for name in ("samples", "curves", "confusion", "features"):
        assert np.asarray(Image.open(tmp_path / f"figures/{name}.png").convert("L")).std() > 5


def test_table_shows_both_methods_and_the_gain():
    summary = {"method": "DANN", "seed": 3, "steps": 20, "kept_by": "info_max", "kept_step": 10}
    for name, numbers in (("", (4.04, 0.99, 0.755)), ("source_only/", (2.0, 0.98, 0.6))):
        for key, number in zip(("seconds", *ACCURACIES), numbers, strict=True):
            summary[name + key] = number
    summary["target/balanced_accuracy"] = 0.712
    text = report.format_accuracies(summary)
    assert "\n* measured with target test labels; not used in training\nGain: " in text
    numbers = {"10,", "98.0%", "60.0%", "2.0", "99.0%", "75.5%", "71.2%", "4.0", "+15.5"}
    assert numbers <= {*text.split()}


def test_epoch_line_shows_remaining_time(monkeypatch, capsys):
    monkeypatch.setattr("time.perf_counter", mock.Mock(side_effect=[0.0, 1.0, 10.0]))
    lines = EpochLines(2000)
    lines.set_params({"epochs": 10})
    lines.on_train_begin()
    for epoch in (2, 3):
        lines.on_epoch_end(epoch, {"accuracy": 0.998, "strength": 0.25, "other": 1.0})
    expected = [f"epoch {epoch}/10  train acc 99.8%  strength 0.25" for epoch in (3, 4)]
    expected[1] += "  0:54 left for this model"
    assert capsys.readouterr().out.splitlines() == expected


def test_progress_within_a_long_epoch(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    lines = EpochLines(110)
    lines.set_params({"epochs": 2, "steps": 100})
    lines.on_train_begin()
    lines.on_epoch_begin(0)
    for step in range(0, 40, 10):  # ten steps per call
        now[0] += 60 if step == 0 else 20  # the first call includes compilation
        lines.on_train_batch_end(step + 9)
    # After the first call, ten steps take 20 s.
    times = [f"step {time} left for this model" for time in ("20/110  3:00", "40/110  2:20")]
    assert capsys.readouterr().out.splitlines() == ["step 10/110", *times]


def summarize_probe(prefix, accuracy, low):
    numbers = {"accuracy": accuracy, "low": low, "high": 2 * accuracy - low}
    return {f"{prefix}probe/{name}": value for name, value in numbers.items()}


# The accuracy of the probe, and the lower end of its interval.
PROBES = {"not aligned": (0.92, 0.86), "partly aligned": (0.8, 0.7)}
PROBES |= {"undetermined": (0.6, 0.4), "aligned": (0.58, 0.5)}


@pytest.mark.parametrize(("alignment", "probe"), PROBES.items())
def test_alignment_and_recommendation_follow_the_probes(alignment, probe):
    row = {"method": "dann", **summarize_probe("", *probe)}
    line = f"Alignment: {alignment} (probe accuracy {probe[0]:.0%}, chance 50%)"
    is_rejected = alignment == "not aligned"
    advice = {"not aligned": ": do not trust these predictions", "undetermined": f": {TOO_FEW}"}
    assert report.describe_alignment(row).replace("\n ", "") == line + advice.get(alignment, "")
    row |= summarize_probe("source_only/", 0.53, 0.51)
    row |= {"source/accuracy": 0.9, "source/balanced_accuracy": 0.5, "source_only/source/r2": 0.1}
    labels, reason = np.arange(20) % 2, "the domains are not aligned"
    domains = mock.Mock(source_test=(None, labels), target_test=(None, labels))
    line = "Recommended without target labels: dann" + f", although {reason}" * is_rejected
    assert report.recommend_classifier(row, domains) == line
    accuracies = {"target/accuracy": 0.737, "source_only/target/accuracy": 0.8}
    line += ", but by target labels, the gain of dann is -6.3 points"
    assert " ".join(report.recommend_classifier(row | accuracies, domains).split()) == line
    domains.target_test = None, None
    line = "Recommended: dann; not verified: label some target examples first"
    if is_rejected:
        line = f"Recommended: label some target examples first, because {reason}; then test dann"
    assert report.recommend_classifier(row, domains) == line
    line = report.recommend_classifier(
        row | {"source_only/proportions_explain_shift": True}, domains
    )
    assert line.startswith("Recommended: source only, adapted by `dann.adapt_shares` (other class")
    line = report.recommend_classifier(row | {"source/accuracy": 0.54}, domains)
    assert line.startswith("Recommended: source only (dann did not learn the labels); not ")
    failed = row | {"source/accuracy": 0.54, "source_only/source/r2": 0.05}
    line = " ".join(report.recommend_classifier(failed, domains).split())
    assert line.endswith("labels: source test accuracy 54%, 50% by a constant prediction")
    for low in (0.5, 0.3):  # the second interval ends at 74%
        row |= summarize_probe("source_only/", 0.52, low)
        reason = f"shift unknown: {TOO_FEW}" if low == 0.3 else "no visible shift"
        line = " ".join(report.recommend_classifier(row, domains).split())
        assert line.startswith(f"Recommended: source only ({reason}); not verified: label")
    line = report.recommend_classifier(row | {"source_only/source/r2": 0.05}, domains)
    assert line.startswith("Recommended: none, because source only (shift unknown: ")
    assert report.describe_doubt("dann", "mae", 0.2, False).endswith("the gain of dann is +20.0%")
    assert report.describe_alignment({}) == "Alignment: unknown (no probe)"


def test_class_shares_are_estimated_if_only_shares_differ():
    rng = np.random.default_rng(0)
    y, y_target = np.arange(600) % 2, np.arange(600) % 10 // 8  # one half, one fifth
    x, x_target = (rng.normal(3 * labels)[:, None] for labels in (y, y_target))
    source, target = (np.hstack([0 * part, 3 * part - 4.5]) for part in (x, x_target))
    outputs = selection.outputs.Outputs(target, source_logits=source, source_labels=y)
    predicted, changed = (pandas.Series(s, ["no", "yes"]) for s in ([0.5, 0.5], [0.2, 0.8]))
    line = report.describe_shares(predicted, predicted, selection.estimate_shares(outputs))
    words = r"^Estimated class proportions .*, if nothing else changed: no (79|80|81)%, yes "
    assert re.search(words + r".* \(source 50%, 50%\); they", line.replace("\n ", ""))
    rejected = selection.estimate_shares(outputs._replace(target_logits=target + [[0, 20]]))
    line = report.describe_shares(predicted, predicted, rejected)
    assert line == "Predicted class proportions: no 50%, yes 50% (source 50%, 50%)"
    line = report.describe_shares(changed, predicted)
    assert line.endswith(" (source 50%, 50%); they differ: label some examples")


@pytest.mark.parametrize(("count", "numbers"), [(3, {"50", "100"}), (21, set())])
def test_confusion_rows_are_shares_of_a_class(count, numbers, tmp_path, figures):
    test = images, labels = np.zeros((4, 2, 2, 1), "uint8"), np.array([0, 0, 2, 2])
    pair = DomainPair("a", "b", test, test, images, test, count)
    predicted = {"source": labels, "target": np.array([0, 1, 2, 2]), "source only": labels}
    run_figures.save_confusion(pair, predicted, "DANN", tmp_path / "confusion.png")
    source, target, baseline = figures[0].axes
    expected = np.zeros((count, count))
    expected[0, :2], expected[2, 2] = 0.5, 1
    np.testing.assert_array_equal(target.images[0].get_array(), expected)
    for axes in (source, baseline):
        np.testing.assert_array_equal(axes.images[0].get_array().diagonal()[:3], [1, 0, 1])
    assert target.get_title() == "b, target test set\nDANN: accuracy 75.0%"
    assert baseline.get_title() == "b, target test set\nsource only: accuracy 100.0%"
    assert {text.get_text() for text in target.texts} == numbers  # cells of 0 stay blank
    pair = dataclasses.replace(pair, target_test=(images, None))
    run_figures.save_confusion(pair, predicted, "DANN", tmp_path / "confusion.png")
    percents = np.reshape([bar.get_height() for bar in figures[1].axes[1].patches], (2, count))
    np.testing.assert_array_equal(percents[:, :3], [[50, 0, 50], [25, 25, 50]])


@pytest.mark.parametrize("count", [2, 7, 20])
def test_long_class_names_are_inside_the_figure(count, tmp_path, figures):
    names = [f"{'International bank transfers ' * 3}{n}" for n in range(count)]
    test = _, labels = np.zeros((40, 5), "float32"), np.arange(40) % count
    pair = DomainPair("a", "b", test, test, test[0], test, count, class_names=names)
    predicted = {"source": labels, "target": labels}
    run_figures.save_confusion(pair, predicted, "DANN", tmp_path / "confusion.png")
    features = np.random.default_rng(0).normal(size=(160, 5))
    view = run_figures.FeaturePanel("a", features, np.tile(labels, 2))
    run_figures.save_features([view], pair, seed=0, path=tmp_path / "features.png")
    for figure in figures:
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if text.get_text()]
        content = " ".join(text.get_text() for text in texts).replace("\n", " ")
        assert content.count("International bank transfers") >= content.count("…") >= count
        corners = [c for text in texts for c in text.get_window_extent().corners()]
        assert all(figure.bbox.contains(*corner) for corner in corners)
    for axes in figures[0].axes:
        for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [tick.get_window_extent() for tick in ticks]
            assert all(box.count_overlaps(boxes) == 1 for box in boxes)  # with itself


def test_curves_have_whole_markers_and_a_legend(tmp_path, figures):
    history = {"label/loss": [0.0, 1.0], "source_only/label/loss": [2.0, 3.0]}
    history["selection/info_max"] = [3e-5, 4e-5]
    run_figures.save_curves(history, [1, 2], 10, "dann", tmp_path / "curves.png")
    axes, score = figures[0].axes
    assert axes.lines[0].get_tightbbox().ymin < axes.bbox.ymin  # the marker at 0
    assert axes.get_legend_handles_labels()[1] == ["label classifier", "source only"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [2.0, 3.0])
    assert axes.lines[1].get_marker() == "^"  # with few epochs
    assert score.get_ylim() == (0, pytest.approx(np.log(10), rel=0.05))  # the range of InfoMax
    assert (score.get_legend(), figures[0].get_suptitle()) == (None, "dann")


def test_target_without_labels_has_scores_and_no_accuracy(domains, tmp_path, monkeypatch, capsys):
    draw = mock.Mock()
    monkeypatch.setattr(run_figures, "draw", draw)
    pair = dataclasses.replace(domains, target_test=(domains.target_test[0], None))
    baseline = build_model(SourceOnly)
    settings = SelectionConfig(scores=["info_max"], samples=99)
    summary = train_small(tmp_path, pair, build_model(DANN), baseline, selection=settings)
    assert "target/accuracy" not in summary
    titles = [view.title for view in draw.call_args.args[5]]
    accuracies = [summary[f"{prefix}source/accuracy"] for prefix in ("source_only/", "")]
    assert titles[0] == f"source only: source {accuracies[0]:.1%}"
    assert titles[1].endswith(f": source {accuracies[1]:.1%}")
    assert "source_only/label/loss" in draw.call_args.args[2]
    assert len(draw.call_args.args[4]["target"]) == len(pair.target_train) + 12
    printed = capsys.readouterr()
    outputs = selection.compute_outputs(baseline, source=pair.source_test, target=pair.target_train)
    score = summary["source_only/selection/info_max"]
    assert score == pytest.approx(selection.info_max(outputs), rel=1e-4)
    probe = probe_domains(outputs.source_features, outputs.target_features)
    for name, value in probe._asdict().items():
        assert summary[f"source_only/probe/{name}"] == pytest.approx(value, rel=1e-4)
    assert "source examples; the target has no labels\n" in printed.out
    counts = len(pair.target_train), len(pair.target_test[0])
    assert "no labels: trains on {} examples and keeps {} for".format(*counts) in printed.out
    assert re.search(r"\nAlignment: (.*\n)+Written to ", printed.out)
    assert "warning" not in printed.err


def test_predictions_are_in_the_order_of_the_input():
    """The row number is the first column, and the split is the last."""
    inputs = np.eye(3, dtype="float32")[np.arange(30) % 3]
    pair = arrays((inputs, np.arange(30) % 3), 2 * inputs)
    classifier = keras.Sequential([keras.Input((3,)), keras.layers.Identity()])
    table = predict_target(classifier, pair)
    assert list(table) == ["example", "class", "probability", "split"]
    np.testing.assert_array_equal(table["example"], np.arange(30))
    np.testing.assert_array_equal(table["class"], np.arange(30) % 3)
    assert table["split"].value_counts().to_dict() == {"train": 24, "test": 6}
    frame = pandas.DataFrame(inputs, columns=["a", "b", "c"])
    frame["label"], names = np.arange(30) % 3, [f"p{29 - row}" for row in range(30)]
    pair = csv_table(frame, (5 * frame).assign(label="", uid=names), id="uid")
    table = predict_target(classifier, pair)
    assert table["example"].tolist() == names
    np.testing.assert_array_equal(table["class"].astype(int), np.arange(30) % 3)


def test_balanced_accuracy_weighs_rare_classes_equally():
    labels, predicted = np.array([0, 0, 0, 2]), np.array([0, 0, 1, 1])
    accuracies = compute_accuracies(labels, predicted)
    assert accuracies == {"accuracy": 0.5, "balanced_accuracy": pytest.approx((2 / 3 + 0) / 2)}


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 1), ("float32", 3)])
@pytest.mark.parametrize("scale", [1, 255])
def test_samples_are_tiled_and_fill_the_figure(dtype, channels, scale, tmp_path, figures):
    pixels = np.arange(4 * 4 * 8 * channels).reshape(4, 4, 8, channels) % 256 / 255
    test = images, _ = (scale * pixels).astype(dtype), np.arange(4) % 2
    pair = DomainPair("a", "a", test, test, images, test, 2)
    save_samples(pair, tmp_path / "samples.png")
    figures[0].draw_without_rendering()
    assert figures[0].axes[1].bbox.y0 < 0.05 * figures[0].bbox.height
    assert [axes.get_title() for axes in figures[0].axes] == ["a (source)", "a (target)"]
    assert [text.get_text() for text in figures[0].axes[0].texts[:8]] == [*"00000001"]
    source, target = (axes.images[0].get_array() for axes in figures[0].axes)
    np.testing.assert_array_equal(source, target)
    gaps = (0, 0), (0, 1), (0, 2), (0, 0)
    tiles = np.pad(images[np.linspace(0, 3, 20).astype(int)] / scale, gaps, constant_values=1)
    expected = tiles.reshape(2, 10, 5, 10, channels).swapaxes(1, 2).reshape(10, 100, channels)
    np.testing.assert_allclose(source, np.squeeze(expected[:-1, :-2]), atol=1e-6)


@pytest.mark.parametrize(("scale", "length"), [(0.0, 5), (1e-30, 5), (1e30, 5), (1.0, 1)])
def test_features_of_any_scale_are_drawn(scale, length, domains, tmp_path):
    features = scale * np.random.default_rng(0).normal(size=(48, length))
    view = run_figures.FeaturePanel("a", features, np.zeros(24, int))
    run_figures.save_features([view], domains, seed=0, path=tmp_path / "features.png")
    assert np.asarray(Image.open(tmp_path / "features.png").convert("L")).std() > 5


@pytest.mark.parametrize("kind", ["true", "true or predicted", "predicted"])
def test_legend_explains_the_colors(kind, domains, tmp_path, monkeypatch, figures):
    (inputs, labels), predicted = domains.target_test, np.arange(24) % 3  # blue, orange, green
    colors = predicted if kind == "predicted" else np.append(labels, predicted[12:])
    colors = colors[:12] if kind == "true" else colors  # only the test set
    monkeypatch.setattr(run_figures, "_POINTS", len(colors))
    pair = dataclasses.replace(domains, target_test=(inputs, labels if "true" in kind else None))
    features = np.random.default_rng(0).normal(size=(2 * len(colors), 5))
    view = run_figures.FeaturePanel("a", features, predicted[: len(colors)])
    run_figures.save_features([view], pair, seed=0, path=tmp_path / "features.png")
    (axes,) = figures[0].axes
    np.testing.assert_allclose(axes.collections[1].get_facecolors(), colormaps["tab10"](colors))
    circles = {*map(tuple, axes.collections[0].get_offsets())}
    assert {name.get_position() for name in axes.texts} <= circles
    assert axes.get_legend_handles_labels()[1][1] == f"b (color: {kind} class)"


def test_failed_figure_is_a_warning(domains, tmp_path, monkeypatch, capsys):
    failure = mock.Mock(side_effect=RuntimeError("no memory left"))
    monkeypatch.setattr(run_figures, "save_curves", failure)
    names = ["$\\frac", "x$", "_^"]  # not to be parsed as formulas
    pair = dataclasses.replace(domains, source="a$_{$b", class_names=names)
    summary = train_small(tmp_path, pair, build_model(DANN))
    assert "warning: no figure curves: no memory left" in capsys.readouterr().err
    run = RunDirectory(tmp_path)
    assert {path.stem for path in run.figures.iterdir()} == {"confusion", "features", "samples"}
    assert run.summary() == summary
    assert run.classifier().output_shape == (None, 3)
