"""Each part of the split against the part used alone, on its variables."""

import json

import keras
import numpy as np
import pytest
from constant_gradient import (
    MODES,
    assert_equal,
    each_mode,
    product,
    sum_of_layers,
    train,
    values,
)

from dann.optimizers import Bop, PerVariable

Decay = keras.optimizers.schedules.InverseTimeDecay
PARTS = {
    "bop": lambda: Bop(0.3, 0.02),
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
    return PerVariable(rules, rest=PARTS["accumulated"]())


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
        train(one, make(), epochs=3, jit_compile=False)
        trained = one.trainable_variables
        found.update(zip((v.path for v in trained), values(trained), strict=True))
    return found


@pytest.mark.tensorflow
@each_mode
def test_each_part_does_what_it_does_alone(mode, alone):
    together = model()
    before = values(together.variables)
    train(together, split(), epochs=3, **MODES[mode])
    after = values(together.variables)
    for variable, old, new in zip(together.variables, before, after, strict=True):
        assert (alone[variable.path] != old).any()
        np.testing.assert_allclose(new, alone[variable.path], rtol=1e-5, atol=1e-7)


@pytest.mark.tensorflow
def test_a_saved_model_resumes_exactly(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    one = model()
    train(one, split(), jit_compile=False)
    assert isinstance(one.optimizer, keras.optimizers.LossScaleOptimizer)
    one.save(tmp_path / "model.keras")
    again = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"product": product}, safe_mode=True
    )
    assert_equal(one, again)
    before = values(one.trainable_variables)
    for trained in (one, again):
        train(trained)
    pairs = zip(values(one.trainable_variables), before, strict=True)
    assert sum((now != then).any() for now, then in pairs) > 4
    assert_equal(one, again)


def test_the_first_rule_that_holds_takes_a_variable():
    optimizer = PerVariable(
        {"kernel": keras.optimizers.SGD(name="a"), "first": keras.optimizers.SGD(name="b")},
        rest=keras.optimizers.SGD(name="c"),
    )
    optimizer.build(sum_of_layers("first", "second").trainable_variables)
    assert optimizer.places == (0, 1, 0, 2)


def test_places_stand_for_the_rules():
    variables = sum_of_layers("first", "second").trainable_variables
    first, rest = PARTS["averaged"](), PARTS["clipped"]()
    PerVariable({"any": first}, rest, places=[1, 0, 0, 1]).build(variables)
    assert first._trainable_variables == variables[1:3]
    assert rest._trainable_variables == [variables[0], variables[3]]


def test_callbacks_find_the_parts_before_the_first_step():
    kinds = [type(part).__name__ for part in split().optimizers]
    assert kinds == ["Bop", "SGD", "Adam", "RMSprop"]


def test_a_factor_of_the_loss_changes_nothing_but_the_scale_of_the_gradient():
    plain, scaled = model(), model()
    train(plain, PerVariable({"binary": PARTS["bop"]()}, PARTS["clipped"]()))
    parts = {"binary": PARTS["bop"]()}, PARTS["clipped"]()
    train(scaled, PerVariable(*parts, loss_scale_factor=8.0))
    for one, other in zip(values(plain.variables), values(scaled.variables), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert scaled.optimizer.loss_scale_factor == 8.0
    assert [part.loss_scale_factor for part in scaled.optimizer.optimizers] == [8.0, 8.0]
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(scaled.optimizer)
    )
    assert again.loss_scale_factor == 8.0


def test_an_unused_optimizer_comes_back_from_its_config_through_json():
    optimizer = PerVariable({"binary": Bop(), "bias": PARTS["clipped"]()}, PARTS["averaged"]())
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == optimizer.get_config()
    assert again.rules == ("binary", "bias")


def built(*arguments, **kwargs):
    PerVariable(*arguments, **kwargs).build(sum_of_layers("first").trainable_variables)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: built({"binary": Bop()}, rest=PARTS["clipped"]()), ValueError),  # matches nothing
        (lambda: built({"any": Bop()}, PARTS["clipped"](), places=[0, 1, 1]), ValueError),
        (lambda: built({"a": "sgd"}, keras.optimizers.SGD()), AttributeError),
        (lambda: built({"a": Bop()}, "sgd"), TypeError),
    ],
)
def test_what_does_not_fit_is_refused(make, error):
    with pytest.raises(error):
        make()
