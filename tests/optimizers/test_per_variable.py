"""Each part of the split against the part used alone, on its variables."""

import json

import keras
import numpy as np
import pytest
from constant_gradient import MODES, assert_resumes, each_mode, sum_of_layers, train, values
from support.arrays import assert_all_close

from dann.optimizers import Bop, PerVariable

Decay = keras.optimizers.schedules.InverseTimeDecay
PARTS = {
    "bop": lambda: Bop(Decay(0.4, 10, 1.0), Decay(0.05, 5, 2.0)),
    "clipped": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.05),
    "averaged": lambda: keras.optimizers.Adam(
        Decay(0.02, 3, 1.0), use_ema=True, ema_momentum=0.8, clipnorm=0.1
    ),
    "accumulated": lambda: keras.optimizers.RMSprop(0.02, gradient_accumulation_steps=2),
}
OWNERS = {"bop": "first", "clipped": "second", "averaged": "third", "accumulated": "fourth"}


def model():
    return sum_of_layers(*OWNERS.values(), binary=["first"])


def split():
    """By a word, two patterns, and what is left."""
    rules = {
        "binary": PARTS["bop"](),
        r"second/(kernel|bias)|first/bias": PARTS["clipped"](),
        "third": PARTS["averaged"](),
    }
    return PerVariable(rules, default_optimizer=PARTS["accumulated"]())


def owner(variable):
    """The part that trains a variable under `split`."""
    layer, name = variable.path.split("/")
    part = next(part for part, its in OWNERS.items() if its == layer)
    return "clipped" if part == "bop" and name == "bias" else part


@pytest.fixture(scope="module")
def alone():
    """What each part makes of its variables where no others train."""
    found = {}
    for part, make in PARTS.items():
        one = model()
        for variable in one.variables:
            variable.trainable = owner(variable) == part
        train(one, make(), run_eagerly=True)
        trained = one.trainable_variables
        found.update(zip((v.path for v in trained), values(trained), strict=True))
    return found


@pytest.mark.tensorflow
@each_mode
def test_each_part_does_what_it_does_alone(mode, alone):
    together = model()
    before = values(together.variables)
    train(together, split(), **MODES[mode])
    after = values(together.variables)
    for variable, old, new in zip(together.variables, before, after, strict=True):
        assert (alone[variable.path] != old).any()
        np.testing.assert_allclose(new, alone[variable.path], rtol=1e-5, atol=1e-7)


@pytest.mark.tensorflow
def test_a_saved_model_resumes_exactly(reloaded):
    keras.config.set_dtype_policy("mixed_float16")
    one = model()
    train(one, split(), jit_compile=False)
    assert isinstance(one.optimizer, keras.optimizers.LossScaleOptimizer)
    assert_resumes(one, reloaded(one), train)


def test_the_first_rule_that_holds_takes_a_variable():
    parts = [keras.optimizers.SGD(name=name) for name in "abc"]
    optimizer = PerVariable({"kernel": parts[0], "first": parts[1]}, default_optimizer=parts[2])
    assert optimizer.optimizers == parts  # callbacks find them before the first step
    optimizer.build(sum_of_layers("first", "second").trainable_variables)
    assert optimizer.optimizer_indices == (0, 1, 0, 2)


def test_a_factor_of_the_loss_changes_nothing_but_the_scale_of_the_gradient():
    plain, scaled = model(), model()
    for one, factor in ((plain, None), (scaled, 8.0)):
        optimizer = PerVariable({"binary": PARTS["bop"]()}, PARTS["clipped"](), None, factor)
        train(one, optimizer, run_eagerly=True)
    assert_all_close(values(plain.variables), values(scaled.variables), 1e-5)
    assert [part.loss_scale_factor for part in scaled.optimizer.optimizers] == [8.0, 8.0]


def test_an_unused_optimizer_comes_back_from_its_config_through_json():
    rules = {"binary": PARTS["bop"](), "bias": PARTS["clipped"]()}
    optimizer = PerVariable(rules, PARTS["averaged"](), loss_scale_factor=8.0)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == optimizer.get_config()
    assert (again.rules, again.loss_scale_factor) == (("binary", "bias"), 8.0)
