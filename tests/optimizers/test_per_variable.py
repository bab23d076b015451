"""Each part of the split against the part used alone, on its variables."""

import json

import keras
import numpy as np
import pytest
from support.constant_gradient import (
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
    """By a word, a pattern, a function, and what is left."""
    rules = {
        "binary": PARTS["bop"](),
        r"second/(kernel|bias)|first/bias": PARTS["clipped"](),
        lambda variable: "third" in variable.path: PARTS["averaged"](),
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
@pytest.mark.parametrize(
    "precision", [pytest.param("float32", marks=pytest.mark.slow), "mixed_float16"]
)
def test_a_saved_model_resumes_exactly(precision, tmp_path):
    keras.config.set_dtype_policy(precision)
    one = model()
    train(one, split(), jit_compile=False)
    scaled = isinstance(one.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (precision == "mixed_float16")
    one.save(tmp_path / "model.keras")
    again = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"product": product}, safe_mode=True
    )
    assert_equal(one, again)
    before = values(one.trainable_variables)
    for trained in (one, again):
        train(trained, epochs=3)
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
    bop, rest = PARTS["bop"](), PARTS["clipped"]()
    PerVariable({"any": bop}, rest, places=[1, 0, 0, 1]).build(variables)
    assert bop._trainable_variables == variables[1:3]
    assert rest._trainable_variables == [variables[0], variables[3]]


def test_callbacks_find_the_parts_before_the_first_step():
    optimizer = split()
    kinds = [type(part).__name__ for part in optimizer.optimizers]
    assert kinds == ["Bop", "SGD", "Adam", "RMSprop"]
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    train(model(), optimizer, callbacks=[swap])


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


def test_functions_are_not_saved_before_they_were_asked():
    with pytest.raises(ValueError, match="save the model after its first step.*<lambda>"):
        split().get_config()


def test_a_rule_that_matches_nothing_is_refused():
    optimizer = PerVariable({"binary": Bop()}, rest=PARTS["clipped"]())
    with pytest.raises(ValueError, match=r"'binary', which matches none of \['first/kernel'"):
        optimizer.build(sum_of_layers("first").trainable_variables)


def test_another_number_of_variables_is_refused():
    optimizer = PerVariable({"any": Bop()}, rest=PARTS["clipped"](), places=[0, 1, 1])
    with pytest.raises(ValueError, match="Received: 2 trainable variables instead of 3"):
        optimizer.build(sum_of_layers("first").trainable_variables)


def test_layers_that_freeze_later_want_a_new_one():
    one = model()
    train(one, split(), epochs=1)
    one.get_layer("third").trainable = False
    told = "frozen or unfrozen.* 6 trainable variables instead of 8"
    if keras.backend.backend() == "jax":  # where Keras looks first
        told = "trainable_variables.* == 6 whereas the optimizer was built with 8"
    with pytest.raises(ValueError, match=told):
        train(one, one.optimizer, epochs=1)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's checkpoints")
def test_tensorflows_own_checkpoints_hold_what_the_parts_hold(tmp_path):
    import tensorflow as tf

    one, again = model(), model()
    train(one, split())
    path = tf.train.Checkpoint(model=one, optimizer=one.optimizer).write(str(tmp_path / "one"))
    train(again, split(), epochs=1)
    restored = tf.train.Checkpoint(model=again, optimizer=again.optimizer).read(path)
    restored.assert_consumed()
    assert_equal(one, again)
    for trained in (one, again):
        train(trained, epochs=3)
    assert_equal(one, again)


SAME = keras.optimizers.SGD(name="same")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({}, Bop()), ValueError, "at least one rule. Received: none"),
        (({"a": SAME}, SAME), ValueError, "an optimizer of its own.*twice among"),
        (({"a": "sgd"}, Bop()), TypeError, "a single Keras optimizer; .* Received: 'sgd'"),
        (({"a": PerVariable({"b": Bop()}, SAME)}, Bop()), TypeError, "a single Keras optimizer"),
        (({3: Bop()}, SAME), TypeError, "or a function of a variable. Received: 3"),
        (({"a(": Bop()}, SAME), ValueError, r"A rule must be .*'a\('"),
        (
            ({"a": Bop(loss_scale_factor=2.0)}, SAME),
            ValueError,
            "not to a part.* Received: bop with loss_scale_factor=2.0",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        PerVariable(*arguments)


def test_what_a_part_excludes_from_weight_decay_is_kept_in_its_config():
    """A step without a gradient takes `rate * decay` of each variable that decays."""
    parts = [keras.optimizers.AdamW(0.1, weight_decay=0.5) for _ in range(2)]
    parts[0].exclude_from_weight_decay(var_names=["bias"])
    optimizer, steps = PerVariable({"first": parts[0]}, rest=parts[1]), []
    for _ in range(2):
        variables = sum_of_layers("first", "second").trainable_variables
        for variable in variables:
            variable.assign(keras.ops.ones(variable.shape))
        optimizer.build(variables)
        optimizer.apply([keras.ops.zeros(variable.shape) for variable in variables])
        steps.append({v.path: float(np.ravel(values([v])[0])[0]) for v in variables})
        optimizer = PerVariable.from_config(json.loads(json.dumps(optimizer.get_config())))
    assert steps[0] == steps[1]
    kept = {path for path, value in steps[0].items() if value == 1}
    assert kept == {"first/bias"}
    assert min(steps[0].values()) == pytest.approx(0.95)
