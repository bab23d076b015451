import csv
import dataclasses
import functools
import json
from unittest import mock

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from dann import training
from dann.adaptation import DANN, SourceOnly, TargetOnly
from dann.config.schema import SelectionConfig, TrainerConfig
from dann.data import DomainPair
from dann.networks import cnn_backbone
from dann.selection import compute_scores
from dann.training import run_figures
from dann.training.checkpoints import Checkpoints, ResumeError, restore, states_of
from dann.training.devices import hardware
from dann.training.run import accuracy_table
from dann.training.run_callbacks import Clock, EpochLines, HostModel

TRAINER = TrainerConfig(steps=6, steps_per_epoch=2, batch_size=4, run_eagerly=True)
ACCURACIES = "source/accuracy", "target/accuracy"
COMPILED = dataclasses.replace(TRAINER, run_eagerly=False)


@pytest.fixture
def domains():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 8, 8, 1)).astype("uint8")
    labels = np.arange(12) % 3
    test = images[::-1].copy(), labels[::-1].copy()
    return DomainPair("a", "b", (images, labels), (images, labels), images, test, 3)


@pytest.fixture
def figures():
    """Asked for by the tests that look at figures."""


@pytest.fixture
def drawn(figures, monkeypatch):
    """The figures that are drawn, in place of their files."""
    found = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: found.append(figure))
    return found


@pytest.fixture(autouse=True)
def without_figures(request, monkeypatch):
    """Drawing takes half the time of these runs."""
    if "figures" not in request.fixturenames:
        for name in ("samples", "curves", "confusion", "features"):
            monkeypatch.setattr(run_figures, f"save_{name}", lambda *_: None)


def run_of(folder, domains, model, *others, trainer=TRAINER, seed=1, **settings):
    return training.Run(folder, domains, trainer, seed, model, *others, **settings)


def compiled(method, learning_rate=0.01, trainer=TRAINER, **options):
    training.start(seed=1)
    model = method(cnn_backbone((8, 8, 1), filters=(4,), units=5), num_classes=3)
    return training.compile_model(model, keras.optimizers.SGD(learning_rate, **options), trainer)


untrained = functools.cache(compiled)


def test_a_run_takes_the_configured_steps_and_reports_them(domains, figures, tmp_path, capsys):
    model, baseline = compiled(DANN, trainer=COMPILED), compiled(SourceOnly, trainer=COMPILED)
    summary = run_of(tmp_path, domains, model, baseline, trainer=COMPILED).train()
    assert int(model.optimizer.iterations) == int(baseline.optimizer.iterations) == 6
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    told = summary["steps"], summary["seed"], summary["hardware"], summary["backend"]
    assert told == (6, 1, hardware(), keras.backend.backend())
    assert accuracy_table(summary) in capsys.readouterr().out
    for name in ("samples", "curves", "confusion", "features"):
        picture = np.asarray(Image.open(tmp_path / f"figures/{name}.png").convert("L"))
        assert picture.std() > 5  # something is drawn


def test_a_refused_resume_loses_nothing_of_a_finished_run(domains, tmp_path):
    first, second = ({"seed": seed, "config": {"config.yaml": f"seed: {seed}"}} for seed in (1, 2))
    run_of(tmp_path, domains, compiled(DANN), **first).train()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert tmp_path / "summary.json" in before
    with pytest.raises(ResumeError, match="pairs"):
        run_of(tmp_path, domains, compiled(DANN), resume=True, **second).train()
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_run_that_begins_anew_leaves_nothing_that_tells_of_the_earlier_one(domains, tmp_path):
    with_curve = dataclasses.replace(TRAINER, oracle_curve=True)
    logger = keras.callbacks.CSVLogger(tmp_path / "metrics.csv")
    run_of(tmp_path, domains, compiled(DANN), trainer=with_curve, callbacks=[logger]).train()
    for name in ("diagnosis.json", "report.html", "figures/old.png", "export/mine.tflite"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert {"oracle.csv", "metrics.csv"} <= {path.name for path in tmp_path.iterdir()}
    run_of(tmp_path, domains, compiled(DANN)).train()
    kept = {"checkpoints", "classifier.keras", "export", "figures", "predictions.csv"}
    kept.add("summary.json")
    assert {path.name for path in tmp_path.iterdir() if path.name[0] != "."} == kept
    assert not (tmp_path / "figures/old.png").exists()


def test_checkpoints_never_lie_beside_the_config_of_another_start(domains, tmp_path, monkeypatch):
    """Else a resumed run would take the checkpoints of one start for those of another."""

    def begin(text):
        run_of(tmp_path, domains, compiled(DANN), config={"config.yaml": text}).train()

    run = training.RunDirectory(tmp_path)
    begin("rate: 1")
    monkeypatch.setattr(Checkpoints, "discard", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        begin("rate: 2")
    assert run.has_checkpoints()
    assert run.config() == "rate: 1"
    assert not run.is_finished()


def test_the_baseline_starts_from_the_same_weights_and_sees_the_same_source(domains, tmp_path):
    """At strength 0 and without batch statistics both learn the same."""

    def make(method, **arguments):
        training.start(seed=1)
        entry = keras.Input((8, 8, 1))
        features = keras.layers.Dense(5)(keras.layers.Flatten()(entry))
        model = method(keras.Model(entry, features), num_classes=3, **arguments)
        return training.compile_model(model, keras.optimizers.SGD(1e-4), TRAINER)

    model, baseline = make(DANN, strength=0.0), make(SourceOnly)
    run_of(tmp_path, domains, model, baseline).train()
    for mine, other in zip(model.classifier.weights, baseline.classifier.weights, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_a_training_that_diverges_leaves_neither_summary_nor_checkpoint(domains, tmp_path):
    saves = [keras.callbacks.ModelCheckpoint(tmp_path / "best.keras")]
    run = run_of(tmp_path, domains, compiled(DANN, learning_rate=1e20), callbacks=saves)
    with pytest.raises(FloatingPointError, match="training of DANN stopped at step [1-6]: "):
        run.train()
    assert not run.directory.has_checkpoints()
    assert not {"best.keras", "summary.json"} & {path.name for path in tmp_path.iterdir()}


def test_logits_of_a_test_set_that_are_not_finite_are_no_result(domains, tmp_path):
    """Weights may be finite and the logits not."""
    model = compiled(DANN)
    overflow = keras.callbacks.LambdaCallback(
        on_train_end=lambda logs: [v.assign(v + 3e38) for v in model.label_head.weights]
    )
    run = run_of(tmp_path, domains, model, callbacks=[overflow])
    with pytest.raises(FloatingPointError, match="Logits of the source's test set"):
        run.train()
    assert not run.directory.is_finished()


def test_the_table_shows_both_methods_and_the_gain():
    summary = {"method": "DANN", "seed": 3, "steps": 20, "kept_by": "info_max", "kept_step": 10}
    for name, numbers in (("", (4.04, 0.99, 0.755)), ("source_only/", (2.0, 0.98, 0.6))):
        for key, number in zip(("seconds", *ACCURACIES), numbers, strict=True):
            summary[name + key] = number
    words = accuracy_table(summary).split()
    for word in ("10,", "98.0%", "60.0%", "2.0", "99.0%", "75.5%", "4.0", "+15.5"):
        assert word in words


def test_an_epoch_has_a_line(monkeypatch, capsys):
    monkeypatch.setattr("time.perf_counter", mock.Mock(side_effect=[1.0, 10.0]))
    lines = EpochLines()
    lines.set_params({"epochs": 10})
    lines.on_train_begin()
    for epoch in (2, 3):
        lines.on_epoch_begin(epoch)
        lines.on_epoch_end(epoch, {"accuracy": 0.998, "strength": 0.25, "other": 1.0})
    said = [f"epoch {epoch}/10  source 99.8%  strength 0.25" for epoch in (3, 4)]
    expected = ["Goes on after epoch 2.", said[0], f"{said[1]}  0:54 left"]
    assert capsys.readouterr().out.splitlines() == expected


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


@pytest.mark.parametrize(("scale", "length"), [(0.0, 5), (1e-30, 5), (1e30, 5), (1.0, 1)])
def test_features_of_any_size_are_drawn(scale, length, domains, figures, tmp_path):
    features = scale * np.random.default_rng(0).normal(size=(24, length))
    run_figures.save_features([("a", features)], domains, seed=0, path=tmp_path / "features.png")
    assert np.asarray(Image.open(tmp_path / "features.png").convert("L")).std() > 5


def test_points_have_the_color_of_their_class_and_a_target_without_labels_is_grey(
    domains, drawn, tmp_path
):
    features = np.random.default_rng(0).normal(size=(24, 5))
    unlabelled = dataclasses.replace(domains, target_test=(domains.target_test[0], None))
    for pair in (domains, unlabelled):
        run_figures.save_features([("a", features)], pair, seed=0, path=tmp_path / "features.png")
    known, unknown = (figure.axes[0] for figure in drawn)
    colors = known.collections[0].get_edgecolors(), known.collections[1].get_facecolors()
    assert [len(np.unique(one, axis=0)) for one in colors] == [3, 3]
    assert len(np.unique(unknown.collections[1].get_facecolors(), axis=0)) == 1
    assert [text.get_text() for text in known.texts] == ["0", "1", "2"]


def test_a_figure_that_fails_costs_no_result_and_names_may_hold_dollars(
    domains, figures, tmp_path, monkeypatch, capsys
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


def test_a_target_without_labels_has_no_accuracy(domains, figures, tmp_path, capsys):
    unknown = dataclasses.replace(domains, target_test=(domains.target_test[0], None))
    summary = run_of(tmp_path, unknown, compiled(DANN)).train()
    assert "source/accuracy" in summary
    assert "target/accuracy" not in summary
    told = capsys.readouterr()
    assert "target accuracy: unknown (no labels)" in told.out
    assert "warning" not in told.err
    text = (tmp_path / "predictions.csv").read_text()
    assert "predicted for the target: " in told.out
    rows = [[split, str(row)] for split in ("train", "test") for row in range(12)]
    assert [line.split(",")[:2] for line in text.splitlines()[1:]] == rows


@pytest.mark.parametrize(("factor", "warned"), [(1, False), (1 / 255, True)])
def test_inputs_outside_the_range_of_the_network_are_told_once(
    factor, warned, domains, tmp_path, capsys
):
    test = images, _ = np.float32(factor) * domains.target_train, domains.source_train[1]
    scaled = DomainPair("a", "b", test, test, images, test, 3)
    run_of(tmp_path, scaled, compiled(DANN)).train()
    told = capsys.readouterr().err
    assert told.count("the network first divides them by 127.5. Set network.backbone") == warned


def test_an_oracle_trains_on_the_targets_labels_and_no_method_does(domains, tmp_path):
    wrong = dataclasses.replace(domains, target_train_labels=np.full(12, 2))
    for method, share in ((TargetOnly, 1.0), (DANN, 1 / 3)):
        model = compiled(method, learning_rate=0.1)
        trainer = dataclasses.replace(TRAINER, steps=60, steps_per_epoch=20)
        run_of(tmp_path, wrong, model, trainer=trainer).train()
        logits = model.classifier.predict(domains.target_train, verbose=0)
        assert np.mean(logits.argmax(axis=1) == 2) == pytest.approx(share, abs=0.35)
        assert (np.mean(logits.argmax(axis=1) == 2) == 1.0) == (method is TargetOnly)


def test_the_oracle_curve_is_written_where_it_is_asked_for(domains, tmp_path):
    trainer = dataclasses.replace(TRAINER, oracle_curve=True)
    summary = run_of(tmp_path, domains, compiled(DANN), trainer=trainer).train()
    rows = (tmp_path / "oracle.csv").read_text().splitlines()
    assert rows[0] == "step,cpu_seconds,target/accuracy"
    assert len(rows) == 4
    assert float(rows[-1].split(",")[2]) == pytest.approx(summary["target/accuracy"])
    assert summary["cpu_seconds"] >= float(rows[-1].split(",")[1])


UNLABELLED = np.zeros((4, 8, 8, 1), "uint8"), None
SELECTION = SelectionConfig(scores=["source_accuracy", "info_max"], samples=8)


def test_it_tells_the_classes_of_the_same_target_examples_whatever_its_seed(domains, tmp_path):
    examples = set()
    for seed in (1, 2):
        run = run_of(tmp_path / str(seed), domains, compiled(DANN), seed=seed)
        run.train()
        names, classes = run.directory.target_classes()
        examples.add(names)
        logits = run.model.predict(domains.target_train, verbose=0)
        known = np.array(domains.class_names or range(domains.num_classes)).astype(str)
        np.testing.assert_array_equal(classes, known[logits.argmax(axis=1)])
    assert len(examples) == 1


@pytest.mark.parametrize(
    ("trainer", "selection", "data", "method", "told"),
    [
        ({"steps": 0}, None, {}, DANN, "trainer.steps"),
        ({"steps": 5}, None, {}, DANN, "trainer.steps"),
        ({"batch_size": 20}, None, {}, DANN, "20"),
        ({"oracle_curve": True}, None, {"target_test": UNLABELLED}, DANN, "oracle_curve"),
        ({}, None, {}, TargetOnly, "labels"),
        ({}, {"keep": "snd"}, {}, DANN, "keep"),
        ({}, {"scores": [], "keep": "snd"}, {}, DANN, "keep"),
        ({}, {"scores": ["target_accuracy"]}, {}, DANN, "scores"),
        ({}, {}, {"target_test": "source_test"}, DANN, "the same test set"),
    ],
)
def test_what_cannot_be_trained_is_refused_when_the_run_is_made(
    trainer, selection, data, method, told, domains, tmp_path
):
    if data.get("target_test") == "source_test":  # the scores would read the target's labels
        data = {"target_test": domains.source_test}
    chosen = None if selection is None else dataclasses.replace(SELECTION, **selection)
    trainer, pair = dataclasses.replace(TRAINER, **trainer), dataclasses.replace(domains, **data)
    with pytest.raises(ValueError, match=told):
        run_of(tmp_path, pair, untrained(method), trainer=trainer, selection=chosen)


def test_scores_do_not_change_the_training(domains, tmp_path):
    models = compiled(DANN), compiled(DANN)
    for model, selection in zip(models, (SELECTION, None), strict=True):
        training.start(seed=1)
        run_of(tmp_path, domains, model, selection=selection).train()
    for mine, other in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("keep", [None, "info_max"])
def test_scores_of_every_epoch_are_written_and_those_of_the_weights_kept_are_in_the_summary(
    keep, averages, domains, tmp_path
):
    """Losses that grow without end make later epochs worse by the score."""
    options = {"use_ema": True, "ema_momentum": 0.3} if averages else {}
    model = compiled(DANN, learning_rate=8.0 if keep else 0.3, **options)
    seen = []
    look = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: seen.append(model.classifier.get_weights())
    )
    selection = dataclasses.replace(SELECTION, keep=keep)
    callbacks = [keras.callbacks.CSVLogger(tmp_path / "metrics.csv"), look]
    run = run_of(tmp_path, domains, model, callbacks=callbacks, selection=selection)
    summary, names, chosen = run.train(), selection.scores, run.watchers[0]
    table = csv.DictReader((tmp_path / "metrics.csv").read_text().splitlines())
    rows = [{name: float(row[f"selection/{name}"]) for name in names} for row in table]
    final = compute_scores(model, source=chosen.source, target=chosen.target, scores=names)
    assert len(rows) == 3
    kept = np.argmax([row["info_max"] for row in rows]) if keep else 2
    for name, value in final.items():
        assert summary[f"selection/{name}"] == rows[kept][name] == pytest.approx(value, rel=1e-4)
    if keep:
        assert kept < 2  # the last is not the best, so the test can fail
        assert (summary["kept_by"], summary["kept_step"]) == ("info_max", 2 * kept + 2)
    # What stands after the scores sees the weights that train, and not their averages.
    same = np.allclose(seen[kept][0], model.classifier.get_weights()[0])
    assert same != averages


def test_the_clock_counts_steps_and_not_what_follows_an_epoch(domains, tmp_path, monkeypatch):
    now = []
    monkeypatch.setattr("time.perf_counter", lambda: float(sum(now)))
    slow = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda *_, **logs: now.append(1), on_epoch_end=lambda *_: now.append(100)
    )
    run = run_of(tmp_path, domains, compiled(DANN), callbacks=[slow])
    assert run.train()["seconds"] == 6
    clock = Clock()
    restore([clock], states_of([run.clock]))
    assert clock.seconds == 6
