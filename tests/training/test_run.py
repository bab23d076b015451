"""Runs of a few steps, and calls that are refused before a training."""

import csv
import dataclasses
import functools
from unittest import mock

import keras
import numpy as np
import pytest
from keras.callbacks import LambdaCallback
from small_runs import TRAINER, build_model, train_small
from support.arrays import assert_all_close

from dann.adaptation import DANN, MDD, SourceOnly, TargetOnly
from dann.config.schema import SelectionConfig
from dann.data import pair
from dann.networks.heads import label_head, scale_outputs
from dann.selection import compute_scores
from dann.training import preparation, run_figures
from dann.training.devices import Distribution
from dann.training.manifest import Manifest
from dann.training.run_callbacks import EpochTable, RunScores
from dann.training.run_directory import RunDirectory

SELECTION = SelectionConfig(scores=["source_accuracy", "info_max"], samples=8)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Figures take half of the time of these runs."""
    for name in ("samples", "curves", "confusion", "features"):
        monkeypatch.setattr(run_figures, f"save_{name}", lambda *_: None)


def test_refused_resume_changes_no_file(domains, tmp_path):
    first, second = ({"seed": seed, "config": {"config.yaml": f"seed: {seed}"}} for seed in (1, 2))
    train_small(tmp_path, domains, build_model(DANN), **first)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert tmp_path / "summary.json" in before
    with pytest.raises(ValueError, match="Received: pairs"):
        train_small(tmp_path, domains, build_model(DANN), resume=True, **second)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_old_checkpoints_never_sit_beside_a_new_config(domains, tmp_path, monkeypatch):
    """Otherwise, a resumed run would load the checkpoints of another start."""

    def begin(text):
        config = {"config.yaml": text}
        train_small(tmp_path, domains, build_model(DANN), config=config, overwrite=True)

    run = RunDirectory(tmp_path)
    begin("rate: 1")
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "discard", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            begin("rate: 2")
    assert run.has_checkpoints()
    assert run.config() == "rate: 1"
    with run.manifest.write(run.report_file) as draft:
        draft.touch()
    with pytest.raises(FileExistsError, match="overwrite=true, which deletes"):
        train_small(tmp_path, domains, build_model(DANN))
    begin("rate: 2")
    assert not run.report_file.exists()


def test_baseline_shares_initial_weights_and_source_batches(domains, tmp_path):
    """At strength 0 and without batch statistics, both models learn the same."""

    def make(method, **arguments):
        preparation.start(seed=1)
        inputs = keras.Input((8, 8, 1))
        pixels = keras.layers.Rescaling(1 / 255)(inputs)
        features = keras.layers.Dense(5)(keras.layers.Flatten()(pixels))
        model = method(keras.Model(inputs, features), num_classes=3, **arguments)
        return preparation.compile_model(model, keras.optimizers.SGD(1e-4), TRAINER)

    model, baseline = make(DANN, strength=0.0), make(SourceOnly)
    train_small(tmp_path, domains, model, baseline)
    assert_all_close(model.classifier.weights, baseline.classifier.weights)


def test_regression_loss_is_divided_by_the_variance():
    inputs, labels = np.eye(4, dtype="float32"), np.array([10.0, 20.0, 40.0, 10.0], "float32")
    keras.utils.set_random_seed(0)
    features = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    head = label_head(3, 1, hidden_units=())
    mean, scale = labels.mean(), labels.std()
    model = DANN(features, label_head=scale_outputs(head, labels))
    preparation.compile_model(model, keras.optimizers.SGD(0.0), TRAINER)
    numbers = mean + scale * head.predict(features.predict(inputs, verbose=0), verbose=0)[:, 0]
    np.testing.assert_allclose(model.predict(inputs, verbose=0)[:, 0], numbers, rtol=1e-5)
    pairs = pair((inputs, labels), inputs, batch_size=4)
    logs = model.fit(pairs, verbose=0).history
    expected = np.mean(np.square((numbers - labels) / scale))
    np.testing.assert_allclose(logs["label/loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(logs["mae"], np.abs(numbers - labels).mean(), rtol=1e-5)
    model = MDD(features, label_head=head, disparity="absolute_error")
    with pytest.raises(ValueError, match="a method other than MDD"):
        preparation.compile_model(model, keras.optimizers.SGD(0.0), TRAINER)


def test_nonfinite_logits_raise(domains, tmp_path):
    """Finite weights can return infinite logits."""
    model = build_model(DANN)
    weights = model.label_head.weights
    overflow = LambdaCallback(on_train_end=lambda logs: [v.assign(v + 3e38) for v in weights])
    with pytest.raises(FloatingPointError, match="finite logits on the test set of the source"):
        train_small(tmp_path, domains, model, callbacks=[overflow])
    assert not RunDirectory(tmp_path).is_finished()


def test_only_an_oracle_learns_from_target_labels(domains, tmp_path):
    wrong = dataclasses.replace(domains, target_train_labels=np.full(12, 2))
    trainer = dataclasses.replace(TRAINER, steps=60, steps_per_epoch=20, run_eagerly=False)
    for method in (TargetOnly, DANN):
        model = build_model(method, learning_rate=0.1, trainer=trainer)
        train_small(tmp_path / method.__name__, wrong, model, trainer=trainer)
        classes = model.classifier.predict(domains.target_train, verbose=0).argmax(axis=1)
        assert np.mean(classes == 2) == 1.0 if method is TargetOnly else np.mean(classes == 2) < 0.7


def test_last_epoch_has_the_remaining_steps(domains, tmp_path):
    trainer = dataclasses.replace(TRAINER, oracle_curve=True, steps=5)
    model, selection = build_model(DANN), dataclasses.replace(SELECTION, keep="info_max")
    summary = train_small(tmp_path, domains, model, trainer=trainer, selection=selection)
    rows = (tmp_path / "oracle.csv").read_text().splitlines()
    assert rows[0] == "step,cpu_seconds,target/accuracy"
    assert [row.partition(",")[0] for row in rows[1:]] == ["2", "4", "5"]
    assert float(rows[-1].split(",")[1]) <= summary["cpu_seconds"]
    assert (summary["steps"], int(model.optimizer.iterations)) == (5, 5)
    assert summary["kept_step"] in (2, 4, 5)
    assert (tmp_path / "checkpoints/step-5.npz").is_file()


@pytest.mark.parametrize(("keep", "averages"), [(None, True), ("info_max", False)])
def test_summary_has_the_scores_of_the_final_weights(keep, averages, domains, tmp_path):
    """A diverging loss makes the scores of later epochs worse."""
    options = {"use_ema": True, "ema_momentum": 0.3} if averages else {}
    method = functools.partial(DANN, strength=1.0)
    model = build_model(method, learning_rate=8.0 if keep else 0.3, **options)
    weights = []
    record = LambdaCallback(on_epoch_end=lambda *_: weights.append(model.classifier.get_weights()))
    selection = dataclasses.replace(SELECTION, keep=keep)
    callbacks = [EpochTable(tmp_path / "metrics.csv"), record]
    summary = train_small(tmp_path, domains, model, callbacks=callbacks, selection=selection)
    table = csv.DictReader((tmp_path / "metrics.csv").read_text().splitlines())
    names = selection.scores
    rows = [{name: float(row[f"selection/{name}"]) for name in names} for row in table]
    examples = RunScores(domains, selection, seed=1)
    final = compute_scores(model, source=examples.source, target=examples.target, scores=names)
    assert len(rows) == 3
    best = np.argmax([row["info_max"] for row in rows]) if keep else 2
    for name, value in final.items():
        assert summary[f"selection/{name}"] == rows[best][name] == pytest.approx(value, rel=1e-4)
    if keep:
        assert best < 2  # otherwise, keeping the last epoch would pass
        assert (summary["kept_by"], summary["kept_step"]) == ("info_max", 2 * best + 2)
    # Callbacks after the scores see the weights that train, not their averages.
    is_final = np.allclose(weights[best][0], model.classifier.get_weights()[0])
    assert is_final != averages


UNLABELLED = np.zeros((4, 8, 8, 1), "uint8"), None
untrained = functools.cache(build_model)


def run(trainer=None, selection=None, method=DANN, **data):
    """Returns a call that trains a small run with other settings in a folder."""

    def call(domains, folder):
        settings = {"trainer": dataclasses.replace(TRAINER, **(trainer or {}))}
        if selection is not None:
            settings["selection"] = dataclasses.replace(SELECTION, **selection)
        train_small(folder, dataclasses.replace(domains, **data), untrained(method), **settings)

    return call


def equal_test_sets(domains, folder):
    run(selection={}, target_test=domains.source_test)(domains, folder)


def connect(*arguments):
    return lambda domains, folder: Distribution(*arguments).connect()


REFUSALS = {
    "no step": (run({"steps": 0}), "trainer.steps"),
    "part of a call": (
        run({"steps": 5, "steps_per_execution": 2}),
        "per_epoch must be multiples of",
    ),
    "batch larger than the source": (run({"batch_size": 20}), "20"),
    "oracle curve without labels": (
        run({"oracle_curve": True}, target_test=UNLABELLED),
        "trainer.oracle_curve=true. Received: no labels",
    ),
    "oracle without labels": (run(method=TargetOnly), "labels of the target"),
    "keep that is no score": (run(selection={"keep": "bnm"}), "selection.keep"),
    "equal test sets": (equal_test_sets, "the same test set for both domains"),
    "unknown distribution": (connect("pipeline"), "distribution.kind"),
    "devices as a text": (connect("data_parallel", "two"), "distribution.devices"),
    "too many devices": (connect("data_parallel", 1000), "Expected at most"),
    "hosts without JAX": (connect("multi_host", "all", "localhost:12", 2, 1), "KERAS_BACKEND=jax"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_name_the_setting(case, domains, tmp_path):
    keras.distribution.list_devices()  # from here on, the processor cannot be split
    call, words = REFUSALS[case]
    with pytest.raises((TypeError, ValueError), match=words):
        call(domains, tmp_path)
    assert not list(tmp_path.iterdir())
