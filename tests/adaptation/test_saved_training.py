"""Saved and reloaded models have the same config and continue with bit-identical training."""

import keras
import pytest
from support.arrays import assert_all_equal
from support.small_methods import FEW, INPUTS, LABELS, METHODS, backbone

import dann
from dann.adaptation import DANN, Invariant
from dann.adaptation.regularizers.regularizer import REGULARIZERS
from dann.layers import DomainBlend
from dann.registry import Registry
from dann.schedules import GaninSchedule

pytestmark = pytest.mark.tensorflow

CHANGED = {
    "entropy": {"weight": 0.3},
    "coral": {"weight": 0.5},
    "mcc": {"weight": 0.5, "temperature": 3.0},
    "self_ensembling": {"weight": 0.5, "threshold": 0.2, "decay": 0.8, "balance": 0.1},
    "vat": {"weight": 0.5, "radius": 2.0, "source_weight": 0.3, "seed": 4},
}


def with_dropout():
    layers = keras.layers.Dense(6, activation="relu"), keras.layers.Dropout(0.5)
    return DANN(keras.Sequential([keras.Input((4,)), *layers]), 3)


def with_random_augmentation():
    layers = keras.Input((2, 2, 1)), keras.layers.Flatten(), keras.layers.Dense(6)
    augmentation = {"source": keras.layers.GaussianNoise(0.5), "blend": DomainBlend()}
    vat = dann.VirtualAdversarial(1.0, 0.5)
    return DANN(keras.Sequential(list(layers)), 3, augmentation=augmentation, regularizers=[vat])


def with_nuisances():
    settings = {"strength": {"site": 0.4, "age": GaninSchedule(20)}, "regularizers": [dann.MCC()]}
    settings |= {"condition_on_label": True, "balanced": "site"}
    return Invariant(backbone(), 3, nuisances={"site": 2, "age": "number"}, **settings)


RANDOM = {"dropout": with_dropout, "augmentation": with_random_augmentation}
NAMES = [*METHODS, "nuisances", *REGULARIZERS]
CASES = [n if n in {*FEW, "vat"} else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
CASES += [*(pytest.param(n, marks=pytest.mark.jax) for n in RANDOM)]


def build_model(name):
    if name in REGULARIZERS:
        return DANN(backbone(), 3, regularizers=[REGULARIZERS[name](**CHANGED[name])])
    return {**METHODS, **RANDOM, "nuisances": with_nuisances}[name]()


def train(model):
    shape = model.backbone.input_shape[1:]
    x, y = {name: part.reshape(-1, *shape) for name, part in INPUTS.items()}, LABELS
    if isinstance(model, Invariant):
        x, y = x["source"], {"label": y, "site": y % 2, "age": x["source"][:, 0]}
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


def get_configs(model):
    """Returns the plain settings of a model and those of its regularizers."""
    config = {k: v for k, v in model.get_config().items() if isinstance(v, str | int | float)}
    return [config, *(regularizer.get_config() for regularizer in model.regularizers)]


@pytest.mark.parametrize("name", CASES)
def test_reloaded_model_trains_with_the_same_bits(name, reloaded):
    model = build_model(name)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    model.compile(optimizer, metrics=["accuracy"], run_eagerly=True)
    train(model)
    reloaded_model = reloaded(model)
    assert get_configs(reloaded_model) == get_configs(model)
    assert get_configs(model)[0]["load_after"] == "import dann"
    keras.utils.set_random_seed(77)  # as in a new process
    assert_all_equal(train(reloaded_model), train(model))


def test_registering_a_method_keeps_other_names():
    class DANN(dann.DANN):
        """A user's class with the same name."""

    @keras.saving.register_keras_serializable("custom")
    class RenamedDANN(dann.DANN):
        """A class registered under another name."""

    methods = Registry(register_with_keras=True)
    methods.register("namesake")(DANN)
    methods.register("custom")(RenamedDANN)
    assert keras.saving.get_registered_object("dann>DANN") is dann.DANN
    assert keras.saving.get_registered_name(RenamedDANN) == "custom>RenamedDANN"
