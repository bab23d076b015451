"""Every score against its formula, the outputs that it reads, and the callback of a training."""

import functools
import inspect
import math

import keras
import numpy as np
import pandas
import pytest
import references
from references import SOURCE, TARGET, TURNS, build_checkpoint, identity_model
from support.arrays import assert_all_equal

import dann
from dann import selection
from dann.adaptation import DANN
from dann.adaptation.prediction import NotFiniteError
from dann.networks import mlp_backbone
from dann.selection import SelectionScores, compute_outputs, compute_scores
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES

NAMES = sorted(SCORES)


@functools.cache
def get_outputs(turn):
    return compute_outputs(build_checkpoint(turn), source=SOURCE, target=TARGET)


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_ranks_follow_the_formula(name):
    formula = getattr(references, name, None)
    assert formula, f"write `def {name}(turn)`, its formula, in tests/selection/references.py"
    expected = [formula(turn) for turn in TURNS]
    scores = [SCORES[name](get_outputs(turn)) for turn in TURNS]
    assert all(isinstance(score, float) for score in scores)
    assert scores == pytest.approx(expected, rel=1e-5, abs=1e-9)
    ranks, due = (np.argsort(np.round(v, 6), kind="stable") for v in (scores, expected))
    np.testing.assert_array_equal(ranks, due)


@pytest.mark.parametrize("name", NAMES)
def test_score_reads_only_what_it_registers(name):
    metadata = SCORES.metadata[name]
    assert getattr(selection, name) is SCORES[name]
    assert metadata["reads"] in ("target", "labeled source", "labeled source, target")
    assert "outputs" in inspect.signature(SCORES[name]).parameters
    assert [field for field in Outputs._fields if "label" in field] == ["source_labels"]
    domains = {"target": {"target": TARGET}, "labeled source": {"source": SOURCE}}
    minimal = compute_outputs(
        build_checkpoint(20),
        features=False,
        mixed="needs_mixtures" in metadata,
        **domains.get(metadata["reads"], {"source": SOURCE, "target": TARGET}),
    )
    assert SCORES[name](minimal) == pytest.approx(SCORES[name](get_outputs(20)), rel=1e-5)


ONE_HOT = 10_000 * np.tile(np.eye(3, dtype="float32"), (8, 1))
UNIFORM, ONE_CLASS = np.zeros_like(ONE_HOT), np.repeat(ONE_HOT[:1], 24, axis=0)


@pytest.mark.parametrize(
    ("name", "uniform", "balanced", "one_class"),
    [
        ("entropy", -math.log(3), 0.0, 0.0),
        ("info_max", 0.0, math.log(3), 0.0),
        ("bnm", 1 / 3, 1.0, 1 / math.sqrt(3)),
        ("mcc", -2 / 3, 0.0, -2 / 3),
        ("mix_val", 0.5, 1.0, 0.5),
    ],
)
def test_closed_forms(name, uniform, balanced, one_class):
    expected = uniform, balanced, one_class
    for target, value in zip((UNIFORM, ONE_HOT, ONE_CLASS), expected, strict=True):
        score = SCORES[name](compute_outputs(identity_model(), target=target, features=False))
        assert score == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_outputs_are_computed_in_inference_mode():
    layers = keras.layers.BatchNormalization(), keras.layers.Dropout(0.5), keras.layers.Flatten()
    backbone = keras.Sequential([keras.Input((4, 4, 1)), *layers])
    model = DANN(backbone, num_classes=4)
    images = np.random.default_rng(0).normal(size=(11, 4, 4, 1)).astype("float32")
    features = backbone(images, training=False)
    expected = keras.ops.convert_to_numpy(model.label_head(features, training=False))
    for with_features in (False, True):
        outputs = compute_outputs(model, target=images, features=with_features, batch_size=4)
        np.testing.assert_allclose(outputs.target_logits, expected, rtol=1e-5, atol=1e-6)
    features = keras.ops.convert_to_numpy(features)
    np.testing.assert_allclose(outputs.target_features, features, rtol=1e-5, atol=1e-6)


def test_model_with_named_inputs_is_scored():
    inputs = {name: keras.Input((1,), name=name) for name in ("left", "right")}
    joined = keras.Model(inputs, keras.layers.Concatenate()([inputs["left"], inputs["right"]]))
    plain = build_checkpoint(20)
    model = DANN(joined, label_head=plain.classifier)
    target = {"left": TARGET[:, :1], "right": TARGET[:, 1:]}
    for name in ("info_max", "mix_val"):
        scores = compute_scores(model, source=None, target=target, scores=[name])
        assert scores[name] == pytest.approx(SCORES[name](get_outputs(20)), rel=1e-5)


def test_frames_and_layers_as_heads_are_scored():
    x, y = np.random.default_rng(0).normal(size=(12, 2)).astype("float32"), np.arange(12) % 3
    model = dann.DANN(dann.networks.mlp_backbone((2,)), label_head=keras.layers.Dense(3))
    model.compile("sgd")
    model.fit(dann.data.pair((x, y), x, 6), verbose=0)
    frame = pandas.DataFrame(x, columns=["a", "b"])
    plain = compute_scores(model, source=(x, y), target=x)
    assert compute_scores(model, source=(frame, y), target=frame) == pytest.approx(plain)


def test_single_target_example_has_no_mixtures():
    names = ["entropy", "mix_val"]
    scores = compute_scores(identity_model(), source=None, target=UNIFORM[:1], scores=names)
    assert list(scores) == ["entropy"]


LOGGED_NAMES = ("info_max", "mix_val", "source_accuracy")


def train(callbacks, epochs, after_epoch=lambda model: None):
    """Trains a DANN from fixed weights on fixed batches; returns it with its history."""
    keras.utils.set_random_seed(1)
    model = DANN(mlp_backbone((2,), hidden_units=(8,)), num_classes=3)
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"], jit_compile=False)
    after = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after_epoch(model))
    pair = {"source": SOURCE[0], "target": TARGET}
    settings = {"batch_size": 21, "epochs": epochs, "verbose": 0}
    history = model.fit(pair, SOURCE[1], callbacks=[*callbacks, after], **settings)
    return model, history.history


def scripted_score(*values):
    """Returns a score with one given value per epoch, or `None` for a diverged model."""
    remaining = list(values)

    def score(outputs):
        value = remaining.pop(0)
        if value is None:
            raise NotFiniteError
        return value

    return score


def test_logged_scores_do_not_change_the_training():
    expected, settings = [], {"scores": LOGGED_NAMES, "source": SOURCE, "target": TARGET}

    def record(model):
        expected.append(compute_scores(model, **settings))

    model, history = train([SelectionScores(**settings)], 2, record)
    for name in LOGGED_NAMES:
        values = [row[name] for row in expected]
        assert history[f"selection/{name}"] == pytest.approx(values, rel=1e-6)
    plain_model, plain_history = train([], 2)
    assert {key: history[key] for key in plain_history} == plain_history
    assert_all_equal(model.get_weights(), plain_model.get_weights())


@pytest.mark.parametrize("start", [0.1, None])
def test_early_stopping_and_checkpoint_follow_the_score(tmp_path, start):
    path, weights = tmp_path / "best.weights.h5", []
    monitor = {"monitor": "selection/scripted", "mode": "max"}
    best_weights = {"save_best_only": True, "save_weights_only": True, **monitor}
    callbacks = [
        SelectionScores({"scripted": scripted_score(start, 0.5, 0.3, 0.4, 0.9)}, target=TARGET),
        keras.callbacks.ModelCheckpoint(path, **best_weights),
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True, **monitor),
    ]
    model, history = train(callbacks, 5, lambda model: weights.append(model.get_weights()))
    first = -np.inf if start is None else start
    assert history["selection/scripted"] == [first, 0.5, 0.3, 0.4]  # it stopped before 0.9
    assert_all_equal(model.get_weights(), weights[1])
    model.load_weights(path)
    assert_all_equal(model.get_weights(), weights[1])
