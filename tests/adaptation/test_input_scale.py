"""Warnings for inputs outside the range that a network expects."""

import keras
import numpy as np
import pytest

import dann
from dann.adaptation.input_scale import warn_about_scale
from dann.networks import application_backbone, cnn_backbone, mlp_backbone

BYTES = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), dtype="uint8")
UNIT = BYTES / np.float32(255)
LABELS = np.arange(8) % 2
RESCALES, UNSCALED = "expects inputs from about .*input_range", "does not rescale them.*input_range"


def images_network():
    return cnn_backbone((8, 8, 3), filters=(4,), units=4)


def nested_network(*first):
    last = images_network(), keras.layers.Dense(2)
    return keras.Sequential([keras.Input((8, 8, 3)), *first, *last])


def flat_network(**options):
    return mlp_backbone((8, 8, 3), hidden_units=(4,), **options)


def conv_network():
    layers = keras.layers.Conv2D(2, 3), keras.layers.GlobalAveragePooling2D()
    return keras.Sequential([keras.Input((8, 8, 3)), *layers])


def fit(method, *data, **options):
    model = method(images_network(), 2, **options)
    model.compile("sgd")
    model.fit(*data, verbose=0)


def pair(source, target):
    return dann.data.pair((source, LABELS), target)


def multiplying_network():
    return nested_network(keras.layers.Rescaling(255.0))


def dict_network():
    inputs = {"image": keras.Input((8, 8, 3), name="image")}
    return keras.Model(inputs, images_network()(inputs["image"]))


class Batch(keras.utils.PyDataset):
    """A dataset of one batch."""

    def __init__(self, *batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def dividing_network():
    images = keras.Input((8, 8, 3))
    return keras.Model(images, keras.layers.Dense(4)(keras.layers.Flatten()(images / 255)))


CASES = {
    "0 to 1": (images_network, UNIT, RESCALES),
    "-1 to 1": (images_network, 2 * UNIT - 1, RESCALES),
    "standardized": (images_network, (UNIT - UNIT.mean()) / UNIT.std(), RESCALES),
    "nested": (nested_network, UNIT, RESCALES),
    "dict of one input": (dict_network, {"image": UNIT}, RESCALES),
    "bytes of mlp": (flat_network, BYTES, UNSCALED),
    "bytes, multiplied first": (multiplying_network, BYTES, RESCALES),
    "float bytes of convolutions": (conv_network, BYTES.astype("float32"), UNSCALED),
}
FITTING = {
    "0 to 1, multiplied first": (multiplying_network, UNIT),
    "bytes": (images_network, BYTES),
    "dict of bytes": (dict_network, {"image": BYTES}),
    "divided by an operation": (dividing_network, BYTES.astype("float32")),
    "constant": (images_network, np.zeros_like(UNIT)),
    "0 to 1 of mlp": (flat_network, UNIT),
    "scaled bytes of mlp": (lambda: flat_network(input_range=(0, 255)), BYTES),
}


@pytest.mark.parametrize(("network", "images", "words"), CASES.values(), ids=list(CASES))
def test_inputs_of_wrong_scale_warn(network, images, words):
    with pytest.warns(UserWarning, match=words):
        warn_about_scale(network(), images)


@pytest.mark.parametrize(("network", "images"), FITTING.values(), ids=list(FITTING))
def test_inputs_of_right_scale_do_not_warn(network, images):
    warn_about_scale(network(), images)  # pytest turns warnings into errors


@pytest.mark.parametrize(("name", "options"), [("MobileNetV2", {"alpha": 0.35}), ("ResNet50", {})])
def test_application_expects_bytes(name, options):
    backbone = application_backbone((32, 32, 3), name, **options)
    images = np.tile(BYTES, (1, 4, 4, 1))
    warn_about_scale(backbone, images)  # pytest turns warnings into errors
    for unscaled in (images / np.float32(255), images / np.float32(127.5) - 1):
        with pytest.warns(UserWarning, match="expects inputs from about 0 to 2"):
            warn_about_scale(backbone, unscaled)


BATCH, NUISANCES = Batch(UNIT, LABELS), {"label": LABELS, "site": LABELS}
FITS = {
    "pairs": lambda: fit(dann.DANN, pair(UNIT, UNIT)),
    "pairs, wrong target": lambda: fit(dann.CDAN, pair(BYTES.astype("float32"), UNIT)),
    "a pair, wrong target": lambda: fit(dann.CDAN, {"source": BYTES, "target": UNIT}, LABELS),
    "plain inputs": lambda: fit(dann.SourceOnly, UNIT, LABELS),
    "pairs of datasets": lambda: fit(dann.DANN, dann.data.pair(BATCH, BATCH)),
    "dataset of pairs": lambda: fit(dann.DANN, Batch({"source": UNIT, "target": UNIT}, LABELS)),
    "nuisances": lambda: fit(dann.Invariant, Batch(UNIT, NUISANCES), nuisances={"site": 2}),
}


@pytest.mark.parametrize("data", FITS)
def test_fit_warns_about_any_data(data):
    with pytest.warns(UserWarning, match=RESCALES):
        FITS[data]()


@pytest.mark.parametrize(
    "call",
    [
        lambda model: [model.fit(pair(x, x), verbose=0) for x in (BYTES, UNIT)],
        lambda model: model.fit(pair(BYTES, BYTES), validation_data=(UNIT, LABELS), verbose=0),
        lambda model: model.train_on_batch({"source": UNIT, "target": UNIT}, LABELS),
    ],
    ids=["second fit", "validation data", "batch"],
)
def test_each_call_warns_once_per_model(call):
    model = dann.DANN(images_network(), 2)
    model.compile("sgd")
    with pytest.warns(UserWarning, match=RESCALES):
        call(model)
    call(model)  # pytest turns warnings into errors
