"""Each optimizer of a split against the same optimizer alone, and faster heads."""

import keras
import numpy as np
import pytest
from constant_gradient import MODES, assert_resumes, for_each_mode, make_layer_sum, train, values

import dann
from dann.optimizers import Bop, PerVariable, faster_heads
from dann.schedules import GaninDecay

Decay = keras.optimizers.schedules.InverseTimeDecay
PARTS = {  # by the layer that each optimizer trains
    "first": lambda: Bop(Decay(0.4, 10, 1.0), Decay(0.05, 5, 2.0)),
    "second": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.05),
    "third": lambda: keras.optimizers.Adam(
        Decay(0.02, 3, 1.0), use_ema=True, ema_momentum=0.8, clipnorm=0.1
    ),
    "fourth": lambda: keras.optimizers.RMSprop(0.02, gradient_accumulation_steps=2),
}


def make_split():
    """Returns a split by the word "binary", two patterns and the default optimizer."""
    rules = {
        "binary": PARTS["first"](),
        r"second/(kernel|bias)|first/bias": PARTS["second"](),
        "third": PARTS["third"](),
    }
    return PerVariable(rules, default_optimizer=PARTS["fourth"]())


def make_model():
    return make_layer_sum(*PARTS, binary=["first"])


def find_owner(variable):
    """Returns the part of `make_split` that trains a variable."""
    return "second" if variable.path == "first/bias" else variable.path.partition("/")[0]


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


@pytest.mark.parametrize("call", ["build", "apply", "finalize_variable_values"])
def test_other_number_of_variables_is_refused(call):
    weights = [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer = PerVariable({".*": keras.optimizers.SGD()}, keras.optimizers.SGD(), [0])
    if call != "build":
        optimizer.build(weights[:1])
    with pytest.raises(ValueError, match="Received: 2. Compile with a new optimizer"):
        getattr(optimizer, call)(*[weights] * (2 if call == "apply" else 1))


RNG = np.random.default_rng(0)
PAIR = {"source": RNG.normal(size=(8, 3)), "target": RNG.normal(size=(8, 3))}
LABELS = RNG.integers(0, 2, 8)
DECAY = GaninDecay(0.1, total_steps=5)


def dense_model(features=3):
    inputs = keras.Input((features,))
    return keras.Model(inputs, keras.layers.Dense(4, name="dense")(inputs))


@pytest.mark.parametrize(
    ("rate", "moved", "frozen"),
    [(0.1, 0.2, False), (DECAY, float(DECAY(0) + DECAY(1)), False), (0.1, 0.2, True)],
)
def test_head_steps_are_a_multiple_of_backbone_steps(rate, moved, frozen):
    """Two steps with a gradient of 1; backbone and label head have layers of equal names."""
    model = dann.DANN(dense_model(), label_head=dense_model(4))
    model.backbone.trainable = not frozen
    before = values(model.weights)
    optimizer = faster_heads(model, keras.optimizers.SGD(rate), 7.0)
    variables = model.trainable_variables
    for _ in range(2):
        optimizer.apply([keras.ops.ones(v.shape) for v in variables], variables)
    backbone = {id(variable) for variable in model.backbone.weights}
    trained = {id(variable) for variable in variables}
    for variable, old, new in zip(model.weights, before, values(model.weights), strict=True):
        factor = 1 if id(variable) in backbone else 7
        step = factor * moved if id(variable) in trained else 0
        np.testing.assert_allclose(old - new, np.full_like(old, step), rtol=1e-4, atol=1e-6)


def make_nested_model():
    """Returns a model with nested models and layers, whose variable paths change when loaded."""
    inputs = keras.Input((3,))
    inner = keras.Sequential([keras.layers.Reshape((3, 1)), keras.layers.Dense(2)])
    x = keras.Sequential([inner, keras.layers.TimeDistributed(keras.layers.Dense(2))])(inputs)
    return keras.Model(inputs, keras.layers.Flatten()(x))


def fit(model):
    model.fit(PAIR, LABELS, batch_size=4, shuffle=False, verbose=0)


@pytest.mark.slow
def test_loaded_nested_model_resumes_exactly(reloaded):
    optimizer = keras.optimizers.AdamW(GaninDecay(0.02, total_steps=20), clipnorm=1.0)
    model = dann.DANN(make_nested_model(), num_classes=2, strength=0.5)
    model.compile(faster_heads(model, optimizer), jit_compile=False)
    fit(model)
    loaded = reloaded(model)
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) > 0
    paths = [[weight.path for weight in m.backbone.weights] for m in (model, loaded)]
    assert paths[0] != paths[1]  # the reason why variables are identified by position
    assert_resumes(model, loaded, fit)
