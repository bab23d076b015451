"""Maps `(batch, ..., k)`: every position acts as an example."""

import keras
import numpy as np
import pytest
from keras import layers
from support.arrays import STRENGTH, assert_all_close
from support.closed_forms import dann_by_hand
from support.networks import read_weights, with_random_weights
from support.training_step import MODES, check_step, step

from dann.adaptation import DANN, MDAN, ConditionalEntropy, SourceOnly

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(3)
SHAPE = (4, 2, 3)  # examples, height, width
SOURCE = RNG.normal(size=(*SHAPE, 3)).astype("float32")
TARGET = (RNG.normal(size=(*SHAPE, 3)) + 0.5).astype("float32")
MAPS = {"source": SOURCE, "target": TARGET}
LABELS = RNG.integers(0, 3, SHAPE)


def dense(units):
    return layers.Dense(units, use_bias=False)


def linear(method=DANN, entry=(None, None, 3), **kwargs):
    """Returns f = x A, c = f B, d = f w at every position, without biases."""
    backbone = keras.Sequential([keras.Input(entry), dense(4)])
    if method is not SourceOnly:
        domain_head = keras.Sequential([dense(kwargs.get("num_sources", 1))])
        kwargs = {"domain_head": domain_head, "strength": STRENGTH, **kwargs}
    return with_random_weights(method(backbone, label_head=dense(3), **kwargs))


def flatten(part):
    return part.reshape(-1, part.shape[-1])


def compute_flat_dann(weights, **kwargs):
    return dann_by_hand(weights, flatten(SOURCE), LABELS.reshape(-1), flatten(TARGET), **kwargs)


@pytest.mark.parametrize("mode", MODES)
def test_pooling_domain_head_averages_examples(mode):
    pooled = keras.Sequential([layers.GlobalAveragePooling2D(), dense(1)])
    model = linear(domain_head=pooled)
    expected = compute_flat_dann(read_weights(model), pool=np.kron(np.eye(8), np.ones(6) / 6))
    check_step(model, mode, *expected, x=MAPS, y=LABELS)


METHODS = {
    "smooth_task": (DANN, {"task_radius": 0.3}),
    "dann": (DANN, {}),
    "separate": (DANN, {"joint_forward": False}),
    "entropy": (DANN, {"regularizers": [ConditionalEntropy(0.5)]}),
    "mdan": (MDAN, {"num_sources": 2}),
    "source_only": (SourceOnly, {}),
}
SOURCES = np.array([0, 1, 1, 0])


@pytest.mark.parametrize("name", METHODS)
def test_maps_equal_flat_positions(name):
    """Loss, metrics and gradients equal those on the positions as flat examples."""
    method, options = METHODS[name]
    on_maps = {**MAPS, "source_domain": SOURCES} if method is MDAN else MAPS
    flattened = {part: flatten(values) for part, values in MAPS.items()}
    if method is MDAN:
        flattened["source_domain"] = np.repeat(SOURCES, 6)
    map_step = step(linear(method, **options), "eager", on_maps, LABELS, metrics=["accuracy"])
    flat_model = linear(method, (3,), **options)
    flat_step = step(flat_model, "eager", flattened, LABELS.reshape(-1), metrics=["accuracy"])
    assert map_step[0] == pytest.approx(flat_step[0], rel=1e-5)
    assert len(map_step[0]) > (2 if method is SourceOnly else 4)
    assert_all_close(map_step[1], flat_step[1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("unit", ["examples", "positions"])
def test_sample_weights_per_example_or_position(unit, mode):
    weight = RNG.uniform(size=4 if unit == "examples" else SHAPE).astype("float32")
    rows = np.repeat(weight, 6) if unit == "examples" else weight.reshape(-1)
    model = linear()
    terms, gradients = compute_flat_dann(read_weights(model), weight=rows.astype("float64"))
    check_step(model, mode, terms, gradients, x=MAPS, y=LABELS, sample_weight=weight)
    loss = model.evaluate(SOURCE, LABELS, sample_weight=weight, verbose=0)
    positions = np.broadcast_to(rows.reshape(SHAPE), SHAPE)
    assert loss == pytest.approx(model.evaluate(SOURCE, LABELS, sample_weight=positions, verbose=0))
