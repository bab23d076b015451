"""Each optimizer of a split against the same optimizer on its variables only."""

import keras
import numpy as np
import pytest
from constant_gradient import MODES, assert_resumes, for_each_mode, make_layer_sum, train, values

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


def make_model():
    return make_layer_sum(*OWNERS.values(), binary=["first"])


def make_split():
    """Returns a split by the word "binary", two patterns and the default optimizer."""
    rules = {
        "binary": PARTS["bop"](),
        r"second/(kernel|bias)|first/bias": PARTS["clipped"](),
        "third": PARTS["averaged"](),
    }
    return PerVariable(rules, default_optimizer=PARTS["accumulated"]())


def find_owner(variable):
    """Returns the name of the optimizer that trains a variable in `make_split`."""
    layer, name = variable.path.split("/")
    part = next(part for part, owned in OWNERS.items() if owned == layer)
    return "clipped" if part == "bop" and name == "bias" else part


@pytest.fixture(scope="module")
def expected():
    """The variables after each optimizer has trained its own, with all others frozen."""
    expected = {}
    for part, make in PARTS.items():
        model = make_model()
        for variable in model.variables:
            variable.trainable = find_owner(variable) == part
        train(model, make(), run_eagerly=True)
        trained = model.trainable_variables
        expected.update(zip((v.path for v in trained), values(trained), strict=True))
    return expected


@pytest.mark.tensorflow
@for_each_mode
def test_split_equals_separate_optimizers(mode, expected):
    model = make_model()
    before = values(model.variables)
    train(model, make_split(), **MODES[mode])
    after = values(model.variables)
    for variable, old, new in zip(model.variables, before, after, strict=True):
        assert (expected[variable.path] != old).any()
        np.testing.assert_allclose(new, expected[variable.path], rtol=1e-5, atol=1e-7)


@pytest.mark.tensorflow
def test_loaded_model_resumes_exactly(reloaded):
    keras.config.set_dtype_policy("mixed_float16")
    model = make_model()
    train(model, make_split(), jit_compile=False)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert_resumes(model, reloaded(model), train)


@pytest.mark.tensorflow
def test_tensorflow_checkpoint_restores_every_part(tmp_path):
    tf = pytest.importorskip("tensorflow")
    weight, sgd = keras.Variable([2.0]), keras.optimizers.SGD(0.5, momentum=1.0)
    optimizer = PerVariable({".*": sgd}, default_optimizer=keras.optimizers.Adam())
    optimizer.apply([tf.constant([1.0])], [weight])
    checkpoint = tf.train.Checkpoint(optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "checkpoint"))
    optimizer.apply([tf.constant([1.0])], [weight])
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_array_equal(values(sgd.momentums)[0], [-0.5])


def test_first_matching_rule_selects_the_optimizer():
    parts = [keras.optimizers.SGD(name=name) for name in "abc"]
    optimizer = PerVariable({"kernel": parts[0], "first": parts[1]}, default_optimizer=parts[2])
    assert optimizer.optimizers == parts  # available to callbacks before the first step
    optimizer.build(make_layer_sum("first", "second").trainable_variables)
    assert optimizer.optimizer_indices == (0, 1, 0, 2)
