"""Features, logits and labels that are maps `(batch, ..., k)`: every position is an example."""

import keras
import numpy as np
import pytest
from keras import layers
from support.arrays import assert_all_close
from support.formulas import dann_by_hand
from support.networks import read_weights, with_random_weights
from support.pair import STRENGTH
from support.training_step import MODES, check_step, step

import dann
from dann.adaptation import DANN, MCC, MDAN, ConditionalEntropy, SourceOnly

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
    """f = x A, c = f B, d = f w at every position, without biases."""
    backbone = keras.Sequential([keras.Input(entry), dense(4)])
    if method is not SourceOnly:
        domain_head = keras.Sequential([dense(kwargs.get("num_sources", 1))])
        kwargs = {"domain_head": domain_head, "strength": STRENGTH, **kwargs}
    return with_random_weights(method(backbone, label_head=dense(3), **kwargs))


def flat(part):
    return part.reshape(-1, part.shape[-1])


def by_position(weights, **kwargs):
    return dann_by_hand(weights, flat(SOURCE), LABELS.reshape(-1), flat(TARGET), **kwargs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mode", MODES)
def test_a_domain_head_that_judges_positions_descends_the_mean_over_them(mode, smoothing):
    model = linear(domain_label_smoothing=smoothing)
    terms, gradients = by_position(read_weights(model), smoothing=smoothing)
    check_step(model, mode, terms, gradients, x=MAPS, y=LABELS)


@pytest.mark.parametrize("mode", MODES)
def test_a_domain_head_that_pools_descends_the_mean_over_examples(mode):
    pooled = keras.Sequential([layers.GlobalAveragePooling2D(), dense(1)])
    model = linear(domain_head=pooled)
    terms, gradients = by_position(read_weights(model), pool=np.kron(np.eye(8), np.ones(6) / 6))
    check_step(model, mode, terms, gradients, x=MAPS, y=LABELS)


METHODS = {
    "smooth_task": (DANN, {"task_radius": 0.3}),
    "separate": (DANN, {"joint_forward": False}),
    "entropy": (DANN, {"regularizers": [ConditionalEntropy(0.5)]}),
    "mdan": (MDAN, {"num_sources": 2}),
    "source_only": (SourceOnly, {}),
}
SOURCES = np.array([0, 1, 1, 0])


@pytest.mark.parametrize("name", METHODS)
def test_maps_are_positions_in_a_larger_batch(name):
    """Loss, metrics and gradients are those of the positions as so many flat examples."""
    method, options = METHODS[name]
    on_maps = {**MAPS, "source_domain": SOURCES} if method is MDAN else MAPS
    flattened = {part: flat(values) for part, values in MAPS.items()}
    if method is MDAN:
        flattened["source_domain"] = np.repeat(SOURCES, 6)
    found = step(linear(method, **options), "eager", on_maps, LABELS, metrics=["accuracy"])
    flat_model = linear(method, (3,), **options)
    wanted = step(flat_model, "eager", flattened, LABELS.reshape(-1), metrics=["accuracy"])
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    assert len(found[0]) > (2 if method is SourceOnly else 4)
    assert_all_close(found[1], wanted[1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("of", ["examples", "positions"])
def test_sample_weights_are_those_of_examples_or_of_positions(of, mode):
    weight = RNG.uniform(size=4 if of == "examples" else SHAPE).astype("float32")
    rows = np.repeat(weight, 6) if of == "examples" else weight.reshape(-1)
    model = linear()
    terms, gradients = by_position(read_weights(model), weight=rows.astype("float64"))
    check_step(model, mode, terms, gradients, x=MAPS, y=LABELS, sample_weight=weight)
    loss = model.evaluate(SOURCE, LABELS, sample_weight=weight, verbose=0)
    positions = np.broadcast_to(rows.reshape(SHAPE), SHAPE)
    again = model.evaluate(SOURCE, LABELS, sample_weight=positions, verbose=0)
    assert loss == pytest.approx(again)


def small(**kwargs):
    convolution = layers.Conv2D(5, 3, padding="same", activation="relu")
    return DANN(keras.Sequential([keras.Input((8, 8, 3)), convolution]), num_classes=3, **kwargs)


IMAGES = RNG.normal(size=(12, 8, 8, 3)).astype("float32")
OF_PIXELS = RNG.integers(0, 3, (12, 8, 8))


def test_a_segmenting_model_trains_predicts_and_comes_back(reloaded):
    model = small()
    assert model.classifier.output_shape == (None, 8, 8, 3)
    assert model.domain_head.output_shape[1:] == (None, None, 1)
    assert [len(head.layers) for head in (model.label_head, model.domain_head)] == [2, 3]
    model.compile("adam", metrics=["accuracy"])
    pairs = dann.data.pair((IMAGES, OF_PIXELS), IMAGES + 1, batch_size=6, seed=0)
    model.fit(pairs, verbose=0)
    predictions = model.predict(IMAGES, verbose=0)
    found = model.evaluate(IMAGES, OF_PIXELS, verbose=0, return_dict=True)
    assert found["accuracy"] == pytest.approx(np.mean(predictions.argmax(axis=-1) == OF_PIXELS))
    np.testing.assert_allclose(reloaded(model).predict(IMAGES, verbose=0), predictions, rtol=1e-5)


def test_a_label_head_may_pool_while_the_domain_head_judges_positions():
    head = keras.Sequential([layers.GlobalAveragePooling2D(), layers.Dense(3)])
    model = small(label_head=head, regularizers=[MCC()])
    model.compile("sgd")
    model.fit({"source": IMAGES, "target": IMAGES}, np.arange(12) % 3, verbose=0)
    batch = model({"source": IMAGES, "target": IMAGES})
    scores = model.domain_scores(batch, model.reversal, training=False)
    assert scores.shape == (24, 8, 8, 1)
    assert model.classifier.output_shape == (None, 3)
