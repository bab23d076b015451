import csv
import dataclasses
import functools
from unittest import mock

import keras
import numpy as np
import pytest
from keras.callbacks import LambdaCallback
from small_runs import TRAINER, compiled, run_of
from support.arrays import assert_all_close, assert_all_equal

from dann import training
from dann.adaptation import DANN, SourceOnly, TargetOnly
from dann.config.schema import SelectionConfig
from dann.data import DomainPair
from dann.selection import compute_scores
from dann.training import run_figures
from dann.training.checkpoints import Checkpoints, restore, states_of
from dann.training.run_callbacks import Clock

untrained = functools.cache(compiled)


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """Drawing takes half the time of these runs."""
    for name in ("samples", "curves", "confusion", "features"):
        monkeypatch.setattr(run_figures, f"save_{name}", lambda *_: None)


def test_a_refused_resume_loses_nothing_of_a_finished_run(domains, tmp_path):
    first, second = ({"seed": seed, "config": {"config.yaml": f"seed: {seed}"}} for seed in (1, 2))
    run_of(tmp_path, domains, compiled(DANN), **first).train()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert tmp_path / "summary.json" in before
    with pytest.raises(ValueError, match="Received: pairs"):
        run_of(tmp_path, domains, compiled(DANN), resume=True, **second).train()
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_run_that_begins_anew_leaves_nothing_that_tells_of_the_earlier_one(domains, tmp_path):
    with_curve = dataclasses.replace(TRAINER, oracle_curve=True)
    logger = training.EpochTable(tmp_path / "metrics.csv")
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
    assert_all_close(model.classifier.weights, baseline.classifier.weights)


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
    weights = model.label_head.weights
    overflow = LambdaCallback(on_train_end=lambda logs: [v.assign(v + 3e38) for v in weights])
    run = run_of(tmp_path, domains, model, callbacks=[overflow])
    with pytest.raises(FloatingPointError, match="Logits of the source's test set"):
        run.train()
    assert not run.directory.is_finished()


@pytest.mark.parametrize(("factor", "warned"), [(1, False), (1 / 255, True)])
def test_inputs_outside_the_range_of_the_network_are_told_once(
    factor, warned, domains, tmp_path, capsys
):
    test = images, _ = np.float32(factor) * domains.target_train, domains.source_train[1]
    scaled = DomainPair("a", "b", test, test, images, test, 3)
    run_of(tmp_path, scaled, compiled(DANN)).train()
    told = capsys.readouterr().err
    assert told.count("the network first divides them by 127.5. Set ++network.backbone") == warned


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
    assert_all_equal(models[0].get_weights(), models[1].get_weights())


def test_scores_that_need_more_examples_are_left_out_and_told(domains, tmp_path, capsys):
    selection = dataclasses.replace(SELECTION, scores=["all"])
    few = dataclasses.replace(domains, target_train=domains.target_train[:1])
    summary = run_of(tmp_path, few, compiled(DANN), selection=selection).train()
    assert "Left out, because they need more examples: mix_val, snd\n" in capsys.readouterr().out
    assert {"selection/info_max", "selection/dev"} < set(summary)
    assert not {"selection/mix_val", "selection/snd"} & set(summary)


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("keep", [None, "info_max"])
def test_scores_of_every_epoch_are_written_and_those_of_the_weights_kept_are_in_the_summary(
    keep, averages, domains, tmp_path
):
    """Losses that grow without end make later epochs worse by the score."""
    options = {"use_ema": True, "ema_momentum": 0.3} if averages else {}
    method = functools.partial(DANN, strength=1.0)
    model = compiled(method, learning_rate=8.0 if keep else 0.3, **options)
    seen = []
    look = LambdaCallback(on_epoch_end=lambda *_: seen.append(model.classifier.get_weights()))
    selection = dataclasses.replace(SELECTION, keep=keep)
    callbacks = [training.EpochTable(tmp_path / "metrics.csv"), look]
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
    slow = LambdaCallback(
        on_train_batch_end=lambda *_, **logs: now.append(1), on_epoch_end=lambda *_: now.append(100)
    )
    run = run_of(tmp_path, domains, compiled(DANN), callbacks=[slow])
    assert run.train()["seconds"] == 6
    clock = Clock()
    restore([clock], states_of([run.clock]))
    assert clock.seconds == 6
