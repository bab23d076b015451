"""The contract of `AdversarialModel`, for every registered method."""

import keras
import numpy as np
import pytest
from scipy import special
from support import small_methods
from support.arrays import assert_all_equal
from support.networks import read_weights
from support.small_methods import INPUTS, LABELS, METHODS, few_methods
from support.training_step import step

import dann
from dann.adaptation import DANN, MCC, AdversarialModel, Regularizer
from dann.adaptation.regularizers.regularizer import REGULARIZERS

pytestmark = pytest.mark.tensorflow

SLOW_POLICY = pytest.param("mixed_bfloat16", marks=pytest.mark.slow)
STOCHASTIC_METHODS = {"wdgrl", "dirt_t"}  # their losses draw random numbers


def compile_model(name, **kwargs):
    """Returns a model with a stateful optimizer that does not amplify rounding errors."""
    model = METHODS[name]()
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), metrics=["accuracy"], **kwargs)
    return model


def subclasses(cls):
    """Returns all classes of the package that derive from a class."""
    result = {sub for direct in cls.__subclasses__() for sub in {direct, *subclasses(direct)}}
    return {sub for sub in result if sub.__module__.startswith("dann.adaptation.")}


def test_methods_and_regularizers_are_registered():
    methods = subclasses(AdversarialModel) - {dann.Invariant}  # which accepts no pairs
    regularizers = subclasses(Regularizer)
    assert set(small_methods.CLASSES.values()) == methods
    regularizers = {cls for cls in regularizers if not cls.__name__.startswith("_")}
    assert set(REGULARIZERS.values()) == regularizers
    for cls in methods | regularizers:
        assert getattr(dann, cls.__name__) is getattr(dann.adaptation, cls.__name__) is cls
    names = {(cls.name, cls.name) for cls in regularizers}
    assert {(name, kind.name) for name, kind in REGULARIZERS.items()} == names


def test_step_is_traced_once(monkeypatch):
    traces, losses = [], DANN.method_losses
    monkeypatch.setattr(DANN, "method_losses", lambda *args: traces.append(1) or losses(*args))
    compile_model("dann").fit(INPUTS, LABELS, batch_size=4, epochs=2, verbose=0)
    assert len(traces) == 1


@pytest.mark.jax
@few_methods
def test_fits_pairs_and_evaluates_plain_inputs(name):
    model = compile_model(name)
    validation = {"validation_data": (INPUTS["source"], LABELS)}
    history = model.fit(INPUTS, LABELS, batch_size=4, verbose=0, **validation).history
    assert {"loss", "label/loss", "accuracy", "val_loss", "val_accuracy"} <= set(history)
    assert not {key for key in history if key.startswith("val_") and "/" in key}
    result = model.evaluate(INPUTS["target"], LABELS, verbose=0, return_dict=True)
    assert set(result) == {"loss", "accuracy"}
    assert model.predict(INPUTS["target"], verbose=0).shape == (12, 3)


@small_methods.parametrize()
def test_losses_from_features_do_not_change_the_model(name):
    regularizers = [] if name in small_methods.BASELINES else [MCC(), dann.SelfEnsembling()]
    model = METHODS[name](regularizers=regularizers)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    before = [np.array(v) for v in (*model.variables, *model.metrics_variables)]
    inputs = model.augment(INPUTS, training=False)
    features = model.extract_features(inputs, training=False)
    batch = model.make_batch(inputs, features, training=False)
    batch = batch._replace(raw_inputs=INPUTS, labels=LABELS)
    terms = model.loss_terms(batch, training=False)
    after = [np.array(v) for v in (*model.variables, *model.metrics_variables)]
    logs = model.evaluate(INPUTS, LABELS, batch_size=12, verbose=0, return_dict=True)
    if name not in STOCHASTIC_METHODS:
        assert_all_equal(before, after)
        # `evaluate` does not change the variables.
        assert_all_equal(before[: len(model.variables)], model.variables)
        assert float(model.total_loss(terms)) == pytest.approx(logs["loss"], rel=1e-5)
    assert set(terms) <= set(logs)


@few_methods
@pytest.mark.parametrize("policy", ["mixed_float16", SLOW_POLICY])
def test_training_in_mixed_precision(name, policy):
    keras.config.set_dtype_policy(policy)
    model = compile_model(name)
    before = read_weights(model)
    history = model.fit(INPUTS, LABELS, batch_size=4, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert all((new != old).any() for new, old in zip(read_weights(model), before, strict=True))


RNG = np.random.default_rng(1)


def cross_entropy(model, inputs, labels, weights=1):
    logits = keras.ops.convert_to_numpy(model.classifier(inputs)).astype("float64")
    losses = special.logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels]
    return np.mean(weights * losses)


@pytest.mark.parametrize("name", sorted(set(METHODS) - small_methods.VARIANTS - {"dirt_t"}))
def test_weights_and_labeled_target_affect_only_the_label_loss(name):
    extra, weights = INPUTS["target"][:6] + 1, RNG.uniform(size=18)
    inputs, labels = np.concatenate([INPUTS["source"], extra]), np.append(LABELS, LABELS[:6])
    terms = []
    for batch in ((INPUTS, LABELS), ({**INPUTS, "target_labeled": extra}, labels, weights)):
        keras.utils.set_random_seed(3)
        model = METHODS[name]()
        expected = cross_entropy(model, inputs, labels, weights)
        logs, _ = step(model, "eager", *batch)
        losses = {key for key in logs if key.endswith("/loss") and "label" not in key}
        terms.append({key: logs[key] for key in losses})
    assert logs["label/loss"] == pytest.approx(expected, rel=1e-5)
    assert terms[0] == pytest.approx(terms[1], rel=1e-5)
    assert bool(terms[0]) != (name in small_methods.BASELINES)


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
    options = {"joint_forward": joint_forward, "task_radius": radius}
    model = DANN(keras.Model(entry, dense(entry)), 3, **options)
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
