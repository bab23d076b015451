"""What a run prints, writes and draws."""

import dataclasses
import json
from unittest import mock

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from sklearn.metrics import balanced_accuracy_score
from small_runs import TRAINER, compiled, run_of

from dann.adaptation import DANN, SourceOnly
from dann.config.schema import SelectionConfig
from dann.data import DomainPair
from dann.selection import compute_outputs, info_max, probe_domains
from dann.training import run_figures
from dann.training.devices import describe_hardware
from dann.training.predictions import accuracies, accuracy_table, source_only_remark
from dann.training.run_callbacks import EpochLines, HostModel

ACCURACIES = "source/accuracy", "target/accuracy"
COMPILED = dataclasses.replace(TRAINER, run_eagerly=False)


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are drawn, in place of their files."""
    found = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: found.append(figure))
    return found


def test_a_run_takes_the_configured_steps_and_reports_them(domains, tmp_path, capsys):
    model, baseline = compiled(DANN, trainer=COMPILED), compiled(SourceOnly, trainer=COMPILED)
    summary = run_of(tmp_path, domains, model, baseline, trainer=COMPILED).train()
    assert int(model.optimizer.iterations) == int(baseline.optimizer.iterations) == 6
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    told = summary["steps"], summary["seed"], summary["hardware"], summary["backend"]
    assert told == (6, 1, describe_hardware(), keras.backend.backend())
    assert accuracy_table(summary) in capsys.readouterr().out
    for name in ("samples", "curves", "confusion", "features"):
        picture = np.asarray(Image.open(tmp_path / f"figures/{name}.png").convert("L"))
        assert picture.std() > 5  # something is drawn


def test_the_table_shows_both_methods_and_the_gain():
    summary = {"method": "DANN", "seed": 3, "steps": 20, "kept_by": "info_max", "kept_step": 10}
    for name, numbers in (("", (4.04, 0.99, 0.755)), ("source_only/", (2.0, 0.98, 0.6))):
        for key, number in zip(("seconds", *ACCURACIES), numbers, strict=True):
            summary[name + key] = number
    summary["target/balanced_accuracy"] = 0.712
    words = accuracy_table(summary).split()
    for word in ("10,", "98.0%", "60.0%", "2.0", "99.0%", "75.5%", "71.2%", "4.0", "+15.5"):
        assert word in words


@pytest.mark.parametrize(
    ("own", "baseline", "low", "domain", "said"),
    [
        (2.0, 1.5, 0.6, [1.0], None),
        (1.43, 2.2, 0.6, [1.0, 0.6], None),
        (1.43, 2.2, 0.6, [0.6, 0.999], "its InfoMax is 2.20, that of DANN 1.43, and the disc"),
        (2.0, 1.5, 0.49, [], "no shift is seen"),
        (2.0, None, 0.6, [1.0], None),
    ],
)
def test_signs_against_the_method_are_told_in_a_line(own, baseline, low, domain, said):
    summary = {"method": "DANN", "selection/info_max": own, "source_only/probe/low": low}
    if baseline is not None:
        summary["source_only/selection/info_max"] = baseline
    found = source_only_remark(summary, domain)
    assert found is said or found.startswith(f"keep source only: {said}")


def test_a_class_that_is_rare_counts_as_much_in_the_balanced_accuracy():
    labels, predicted = np.array([0, 0, 0, 2]), np.array([0, 0, 1, 1])
    found = accuracies(labels, predicted)
    assert found == {"accuracy": 0.5, "balanced_accuracy": pytest.approx((2 / 3 + 0) / 2)}
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 4, (2, 100))
    expected = balanced_accuracy_score(labels, predicted)
    assert accuracies(labels, predicted)["balanced_accuracy"] == pytest.approx(expected)


def test_an_epoch_has_a_line(monkeypatch, capsys):
    monkeypatch.setattr("time.perf_counter", mock.Mock(side_effect=[1.0, 10.0]))
    lines = EpochLines()
    lines.set_params({"epochs": 10})
    lines.on_train_begin()
    for epoch in (2, 3):
        lines.on_epoch_end(epoch, {"accuracy": 0.998, "strength": 0.25, "other": 1.0})
    said = [f"epoch {epoch}/10  source 99.8%  strength 0.25" for epoch in (3, 4)]
    assert capsys.readouterr().out.splitlines() == [said[0], f"{said[1]}  0:54 left"]


@pytest.mark.parametrize(("count", "written"), [(3, True), (21, False)])
def test_the_confusion_matrices_have_shares_of_each_class_in_a_row(count, written, tmp_path, drawn):
    test = images, labels = np.zeros((4, 2, 2, 1), "uint8"), np.array([0, 0, 2, 2])
    pair = DomainPair("a", "b", test, test, images, test, count)
    predicted = {"source": labels, "target": np.array([0, 1, 2, 2])}
    run_figures.save_confusion(pair, predicted, tmp_path / "confusion.png")
    source, target = drawn[0].axes
    expected = np.zeros((count, count))
    expected[0, :2], expected[2, 2] = 0.5, 1
    np.testing.assert_array_equal(target.images[0].get_array(), expected)
    np.testing.assert_array_equal(source.images[0].get_array().diagonal()[:3], [1, 0, 1])
    assert target.get_title() == "b, test set: 75.0% right"
    shown = {text.get_text() for text in target.texts}
    assert shown == ({"50", "100"} if written else set())  # cells of 0 stay blank


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 1), ("float32", 1), ("float32", 3)])
@pytest.mark.parametrize("scale", [1, 255])
def test_samples_are_the_images_in_two_rows_with_white_between(
    dtype, channels, scale, tmp_path, drawn
):
    shown = np.arange(4 * 6 * 5 * channels).reshape(4, 6, 5, channels) % 256 / 255
    test = images, _ = (scale * shown).astype(dtype), np.arange(4) % 2
    pair = DomainPair("a", "a", test, test, images, test, 2)
    run_figures.save_samples(pair, tmp_path / "samples.png")
    source, target = (axes.images[0].get_array() for axes in drawn[0].axes)
    np.testing.assert_array_equal(source, target)
    whole = np.asarray(source).reshape(14, 60, channels)
    for place, index in enumerate(np.linspace(0, 3, 20).astype(int)):
        row, column = divmod(place, 10)
        tile = whole[7 * row : 7 * row + 7, 6 * column : 6 * column + 6]
        np.testing.assert_allclose(tile[:6, :5], images[index] / scale, atol=1e-6)
        assert tile[6].min() == tile[:, 5].min() == 1


def test_the_features_shown_come_from_all_over_the_test_sets():
    test = inputs, _ = np.arange(1750.0).reshape(1750, 1), np.repeat([0, 1], 875)
    pair = DomainPair("a", "b", test, test, inputs, test, 2)
    model = DANN(keras.Sequential([keras.Input((1,)), keras.layers.Identity()]), num_classes=2)
    shown = run_figures.features_of(HostModel(model), pair)[:, 0]
    for part in (shown[:500], shown[500:]):
        assert (len(part), part[0], part[-1]) == (500, 0, 1749)
        assert np.diff(part).max() <= 4


def test_training_examples_are_shown_where_test_sets_are_small():
    train, test = np.arange(2000.0).reshape(2000, 1), -np.arange(1.0, 101).reshape(100, 1)
    classes = np.arange(2000) % 2
    pair = DomainPair("a", "b", (train, classes), (test, classes[:100]), train, (test, None), 2)
    model = DANN(keras.Sequential([keras.Input((1,)), keras.layers.Identity()]), num_classes=2)
    shown = run_figures.features_of(HostModel(model), pair)[:, 0]
    for part in (shown[:500], shown[500:]):
        np.testing.assert_array_equal(part[:100], test[:, 0])
        assert (len(part), part[100], part[-1]) == (500, 0, 1999)


@pytest.mark.parametrize(("scale", "length"), [(0.0, 5), (1e-30, 5), (1e30, 5), (1.0, 1)])
def test_features_of_any_size_are_drawn(scale, length, domains, tmp_path):
    features = scale * np.random.default_rng(0).normal(size=(48, length))
    run_figures.save_features([("a", features)], domains, seed=0, path=tmp_path / "features.png")
    assert np.asarray(Image.open(tmp_path / "features.png").convert("L")).std() > 5


def test_points_have_the_color_of_their_class_and_a_target_without_labels_is_grey(
    domains, drawn, tmp_path
):
    features = np.random.default_rng(0).normal(size=(48, 5))
    unlabelled = dataclasses.replace(domains, target_test=(domains.target_test[0], None))
    for pair in (domains, unlabelled):
        run_figures.save_features([("a", features)], pair, seed=0, path=tmp_path / "features.png")
    known, unknown = (figure.axes[0] for figure in drawn)
    colors = known.collections[0].get_edgecolors(), known.collections[1].get_facecolors()
    assert [len(np.unique(one, axis=0)) for one in colors] == [3, 4]  # the training set is grey
    assert len(np.unique(unknown.collections[1].get_facecolors(), axis=0)) == 1
    assert [text.get_text() for text in known.texts] == ["0", "1", "2"]


def test_a_figure_that_fails_costs_no_result_and_names_may_hold_dollars(
    domains, tmp_path, monkeypatch, capsys
):
    fails = mock.Mock(side_effect=RuntimeError("no memory left"))
    monkeypatch.setattr(run_figures, "save_curves", fails)
    named = dataclasses.replace(domains, source="a$_{$b", class_names=["$\\frac", "x$", "_^"])
    run = run_of(tmp_path, named, compiled(DANN))
    summary = run.train()
    assert "warning: no figure curves: no memory left" in capsys.readouterr().err
    drawn = sorted(path.stem for path in run.directory.figures.iterdir())
    assert drawn == ["confusion", "features", "samples"]
    assert run.directory.summary() == summary
    assert run.directory.classifier().output_shape == (None, 3)


def test_a_target_without_labels_has_no_accuracy(domains, tmp_path, capsys):
    unknown = dataclasses.replace(domains, target_test=(domains.target_test[0], None))
    baseline = compiled(SourceOnly)
    settings = {"selection": SelectionConfig(scores=["info_max"], samples=99)}
    summary = run_of(tmp_path, unknown, compiled(DANN), baseline, **settings).train()
    assert "source/accuracy" in summary
    assert "target/accuracy" not in summary
    told = capsys.readouterr()
    read = compute_outputs(baseline, source=unknown.source_test, target=unknown.target_train)
    score = summary["source_only/selection/info_max"]
    assert score == pytest.approx(info_max(read), rel=1e-4)
    assert f"  (source only {score:.4f})\n" in told.out
    probe = probe_domains(read.source_features, read.target_features)
    for name, value in probe._asdict().items():
        assert summary[f"source_only/probe/{name}"] == pytest.approx(value, rel=1e-4)
    assert "target accuracy: unknown (no labels)" in told.out
    assert "warning" not in told.err
    text = (tmp_path / "predictions.csv").read_text()
    assert "predicted for the target: " in told.out
    rows = [[split, str(row)] for split in ("train", "test") for row in range(12)]
    assert [line.split(",")[:2] for line in text.splitlines()[1:]] == rows
