"""Diagnostics of models whose backbone has several inputs or is subclassed."""

import keras
import numpy as np
import pytest

from dann.adaptation import DANN
from dann.diagnostics import measure

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
PAIR = {
    domain: {name: RNG.normal(size=(12, 3)).astype("float32") for name in ("image", "meta")}
    for domain in ("source", "target")
}
LABELS = np.arange(12) % 3


class OfTwo(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, inputs):
        return self.dense(inputs["image"] * inputs["meta"])


class OfOne(OfTwo):
    def call(self, inputs):
        return self.dense(inputs)


def trained(backbone, pair):
    backbone(pair["source"])
    model = DANN(backbone, num_classes=3)
    model.compile("sgd")
    model.train_on_batch(pair, LABELS)
    return model


def test_what_differentiates_by_the_input_alone_is_left_out_where_there_are_several():
    names = ["certificate", "jacobians", "signal", "winning"]
    inputs = {name: keras.Input((3,), name=name) for name in ("image", "meta")}
    backbone = keras.Model(inputs, OfTwo()(inputs))
    found, left_out = measure(trained(backbone, PAIR), (PAIR, LABELS), names, few=6)
    assert set(left_out) == {"jacobians", "signal"}
    assert "one input of a network. Received: 2 inputs in a dict" in left_out["jacobians"]
    assert found["reversal/cosine"] == pytest.approx(-1)


def test_a_subclassed_backbone_has_jacobians_but_no_layers_to_follow():
    pair = {domain: inputs["image"] for domain, inputs in PAIR.items()}
    model = trained(OfOne(), pair)
    found, left_out = measure(model, (pair, LABELS), ["jacobians", "signal"])
    kernel = model.backbone.dense.kernel.numpy()
    assert found["jacobian/source/features/norm"] == pytest.approx(np.linalg.norm(kernel), rel=1e-5)
    assert set(left_out) == {"signal"}
    assert "functional or sequential backbone. Received: OfOne" in left_out["signal"]
