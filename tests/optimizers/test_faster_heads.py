import keras
import numpy as np
import pytest
from constant_gradient import assert_resumes, values

import dann
from dann.optimizers import faster_heads
from dann.schedules import GaninDecay

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


def test_loaded_model_resumes_exactly(reloaded):
    optimizer = keras.optimizers.AdamW(GaninDecay(0.02, total_steps=20), clipnorm=1.0)
    model = dann.DANN(make_nested_model(), num_classes=2, strength=0.5)
    model.compile(faster_heads(model, optimizer), jit_compile=False)
    fit(model)
    loaded = reloaded(model)
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) > 0
    paths = [[weight.path for weight in m.backbone.weights] for m in (model, loaded)]
    assert paths[0] != paths[1]  # the reason why variables are identified by position
    assert_resumes(model, loaded, fit)
