"""Weights of examples, layers and regularizers in the losses of every method."""

import keras
import numpy as np
import pytest
from scipy import special
from small_methods import BASELINES, INPUTS, LABELS, METHODS, SMOOTH, VARIANTS, few_methods
from support.networks import with_random_weights
from support.training_step import step

import dann
from dann.adaptation import DANN

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("name", sorted(set(METHODS) - BASELINES - VARIANTS - {"dirt_t"}))
def test_sample_weights_do_not_affect_the_adversary(name):
    logs = []
    for weights in (None, np.zeros(12)):
        keras.utils.set_random_seed(3)
        step_logs, slopes = step(METHODS[name](), "eager", INPUTS, LABELS, weights)
        terms = {key for key in step_logs if key.endswith("/loss") and "label" not in key}
        logs.append({key: step_logs[key] for key in terms})
    assert step_logs["label/loss"] == 0
    assert logs[0]
    assert logs[0] == pytest.approx(logs[1], rel=1e-5)
    if name != "wdgrl":  # whose critic alone learns at first
        assert np.abs(slopes[0]).max() > 0


def cross_entropy(model, inputs, labels):
    logits = keras.ops.convert_to_numpy(model.classifier(inputs)).astype("float64")
    return np.mean(special.logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels])


@pytest.mark.parametrize("name", sorted(set(METHODS) - VARIANTS - {"dirt_t"}))
def test_labeled_target_affects_only_the_label_loss(name):
    model = METHODS[name]()
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"], run_eagerly=True)
    extra, extra_labels = INPUTS["target"][:6] + 1, LABELS[:6]
    pair = {**INPUTS, "target_labeled": extra}
    labels = np.concatenate([LABELS, extra_labels])
    start = model.get_weights()
    logs = model.train_on_batch(pair, labels, return_dict=True)
    model.set_weights(start)  # a step may change the state of a method
    inputs = np.concatenate([INPUTS["source"], extra])
    assert logs["label/loss"] == pytest.approx(cross_entropy(model, inputs, labels), rel=1e-5)
    if "domain/loss" in logs:
        without = model.evaluate(INPUTS, LABELS, verbose=0, return_dict=True)
        assert logs["domain/loss"] == pytest.approx(without["domain/loss"], rel=1e-5)


@few_methods
def test_augmentation_applies_only_in_training(name):
    domain = "target" if isinstance(METHODS[name](), dann.TargetOnly) else "source"
    shift = keras.layers.Rescaling(1.0, offset=3.0)
    # A smooth step logs the losses at moved weights, so the radius is tiny.
    radius = {"task_radius": 1e-7} if name in SMOOTH else {}
    model = with_random_weights(METHODS[name](augmentation={domain: [shift]}, **radius))
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"], run_eagerly=True)
    plain = cross_entropy(model, INPUTS["source"], LABELS)
    shifted = cross_entropy(model, INPUTS["source"] + 3, LABELS)
    logs = model.train_on_batch(INPUTS, LABELS, return_dict=True)
    assert logs["label/loss"] == pytest.approx(shifted, rel=1e-5)
    logs = model.evaluate(INPUTS["source"], LABELS, batch_size=12, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(plain, rel=1e-5)
    assert abs(plain - shifted) > 0.01


def test_domains_of_different_lengths_train_separately():
    layers = [keras.Input((None, 2)), keras.layers.Conv1D(4, 2)]
    layers.append(keras.layers.GlobalAveragePooling1D())
    lengths = {"source": 9, "target": 6}
    series = {name: RNG.normal(size=(12, n, 2)).astype("float32") for name, n in lengths.items()}
    model = dann.CDAN(keras.Sequential(layers), 3, joint_forward=False)
    model.compile(keras.optimizers.SGD(0.0))
    pairs = dann.data.pair((series["source"], LABELS), series["target"], batch_size=12)
    logs = model.fit(pairs, verbose=0).history
    expected = cross_entropy(model, series["source"], LABELS)
    assert logs["label/loss"] == [pytest.approx(expected, rel=1e-5)]
    joint = dann.CDAN(model.backbone, 3)
    with pytest.raises(ValueError, match="`joint_forward=False`"):
        joint(series)


def test_multi_label_loss_and_accuracy():
    labels = RNG.integers(0, 2, (12, 3)).astype("float32")
    model = METHODS["dann"]()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"])
    logs = model.train_on_batch(INPUTS, labels, return_dict=True)
    logits = keras.ops.convert_to_numpy(model.classifier(INPUTS["source"]))
    loss = np.mean(np.logaddexp(0, logits) - labels * logits)
    assert logs["label/loss"] == pytest.approx(loss, rel=1e-5)
    assert logs["accuracy"] == pytest.approx(np.mean((logits > 0) == labels), rel=1e-6)


@pytest.mark.jax
@pytest.mark.parametrize("radius", [0.0, 1e-7])
@pytest.mark.parametrize("joint_forward", [True, False])
def test_layer_losses_cover_both_domains(joint_forward, radius):
    entry = keras.Input((4,))
    weight, activity = keras.regularizers.L2(0.5), keras.regularizers.L2(0.3)
    losses = {"kernel_regularizer": weight, "activity_regularizer": activity}
    dense = keras.layers.Dense(6, **losses, use_bias=False)
    model = DANN(
        keras.Model(entry, dense(entry)), 3, joint_forward=joint_forward, task_radius=radius
    )
    model.compile(keras.optimizers.SGD(0.0))
    kernel = dense.get_weights()[0]
    logs = model.train_on_batch(INPUTS, LABELS, return_dict=True)
    squares = [np.sum((part @ kernel) ** 2) for part in INPUTS.values()]
    expected = 0.5 * np.sum(kernel**2) + 0.3 * sum(squares) / 24
    terms = logs["label/loss"] + logs["domain/loss"]
    assert logs["loss"] - terms == pytest.approx(expected, rel=1e-4)


@pytest.mark.jax
@few_methods
def test_weight_decay_counts_once(name):
    """Some methods run a head twice."""
    decayed = {"kernel_regularizer": keras.regularizers.L2(0.5)}
    entry, features = keras.Input((4,)), keras.Input((6,))
    model = METHODS[name](
        backbone=keras.Model(entry, keras.layers.Dense(6, **decayed)(entry)),
        label_head=keras.Model(features, keras.layers.Dense(3, **decayed)(features)),
    )
    weights = [weight for weight in model.trainable_weights if weight.regularizer is not None]
    decay = sum(0.5 * np.sum(np.square(weight)) for weight in weights)
    model.task_radius *= 1e-6  # which moves the decayed weights
    model.compile(keras.optimizers.SGD(0.0))
    logs = model.fit(INPUTS, LABELS, batch_size=12, verbose=0).history
    parts = float(model.total_loss({k: logs[k][0] for k in logs if k.endswith("/loss")}))
    assert logs["loss"][0] - parts == pytest.approx(decay, rel=1e-4)
