"""The contract of `AdversarialModel`, for every registered method."""

import keras
import numpy as np
import pytest
from small_methods import BASELINES, INPUTS, LABELS, METHODS, backbone, few_methods, parametrize
from support.arrays import assert_all_close, assert_all_equal
from support.networks import read_weights

import dann
from dann.adaptation import DANN, MCC, AdversarialModel, Regularizer

pytestmark = pytest.mark.tensorflow

CLASSES, REGULARIZERS = dann.adaptation.METHODS, dann.adaptation.REGULARIZERS
CHANGED = {
    "entropy": {"weight": 0.3},
    "coral": {"weight": 0.5},
    "mcc": {"weight": 0.5, "temperature": 3.0},
    "self_ensembling": {"weight": 0.5, "threshold": 0.2, "decay": 0.8, "balance": 0.1},
    "vat": {"weight": 0.5, "radius": 2.0, "source_weight": 0.3, "seed": 4},
}
STOCHASTIC_METHODS = {"wdgrl", "dirt_t"}  # their losses draw random numbers


def compile_model(name, **kwargs):
    """Returns a model with a stateful optimizer that does not amplify rounding errors."""
    model = METHODS[name]()
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), metrics=["accuracy"], **kwargs)
    return model


def subclasses(cls):
    """Returns all classes of the package that derive from a class."""
    result = {sub for direct in cls.__subclasses__() for sub in {direct, *subclasses(direct)}}
    return {sub for sub in result if sub.__module__.startswith("dann.adaptation.")}


def test_methods_and_regularizers_are_registered():
    methods = subclasses(AdversarialModel) - {dann.Invariant}  # which accepts no pairs
    regularizers = subclasses(Regularizer)
    assert set(dann.adaptation.METHODS.values()) == methods
    regularizers = {cls for cls in regularizers if not cls.__name__.startswith("_")}
    assert set(dann.adaptation.REGULARIZERS.values()) == regularizers
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


@parametrize()
def test_losses_from_features_do_not_change_the_model(name):
    regularizers = [] if name in BASELINES else [MCC(), dann.SelfEnsembling()]
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
        assert_all_equal(
            before[: len(model.variables)], model.variables
        )  # `evaluate` does not change them
        assert float(model.total_loss(terms)) == pytest.approx(logs["loss"], rel=1e-5)
    assert set(terms) <= set(logs)


@parametrize([*METHODS, *REGULARIZERS])
def test_reloaded_model_trains_as_before(name, reloaded):
    if name in METHODS:
        model = METHODS[name]()
    else:
        model = DANN(backbone(), 3, regularizers=[REGULARIZERS[name](**CHANGED[name])])
    optimizer = keras.optimizers.Adam(0.01, epsilon=1e-3)
    model.compile(optimizer, metrics=["accuracy"], run_eagerly=True)
    model.fit(INPUTS, LABELS, batch_size=4, shuffle=False, verbose=0)
    reloaded_model = reloaded(model)
    configs, regularizers = [], []
    for network in (reloaded_model, model):
        config = network.get_config().items()
        configs.append({k: v for k, v in config if isinstance(v, str | int | float)})
        regularizers.append([part.get_config() for part in network.regularizers])
    assert configs[0] == configs[1]
    assert regularizers[0] == regularizers[1]
    assert_all_equal(reloaded_model.get_weights(), model.get_weights())
    for network in (model, reloaded_model):
        network.fit(INPUTS, LABELS, batch_size=4, shuffle=False, verbose=0)
    assert_all_close(model.get_weights(), reloaded_model.get_weights(), rtol=1e-5, atol=1e-7)


@few_methods
@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)]
)
def test_training_in_mixed_precision(name, policy):
    keras.config.set_dtype_policy(policy)
    model = compile_model(name)
    before = read_weights(model)
    history = model.fit(INPUTS, LABELS, batch_size=4, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert all((new != old).any() for new, old in zip(read_weights(model), before, strict=True))


@few_methods
def test_training_in_double_precision(name, double_precision):
    regularizers = [MCC(), dann.ConditionalEntropy(), dann.VirtualAdversarial(radius=0.5)]
    model = METHODS[name](regularizers=[MCC()] if name == "dirt_t" else regularizers)
    model.compile("sgd", run_eagerly=True)
    history = model.fit(INPUTS, LABELS, batch_size=12, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert model.backbone.weights[0].dtype == "float64"
