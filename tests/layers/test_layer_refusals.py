import keras
import numpy as np
import pytest

from dann.gradients.estimators import MagnitudeAware
from dann.layers import (
    BinaryConv2D,
    BinaryDense,
    DomainBlend,
    GradientReversal,
    MultilinearMap,
    RandomConvolution,
)
from dann.schedules import GaninSchedule

IMAGES, GRAY_IMAGES = np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4, 1))


def set_strength(initial, strength):
    GradientReversal(initial).strength = strength


def make_dense(**arguments):
    return BinaryDense(2, **arguments)


def convolve_unknown_lengths():
    layer = BinaryConv2D(3, 3, padding="same", pad_values=1, strides=2)
    images = keras.Input((None, None, 2))
    layer.build(images.shape)
    layer.apply(images, layer.binary_kernel())


REFUSALS = [
    (lambda: GradientReversal(-0.1), "`strength` to be a finite number >= 0, .*strength=-0.1"),
    (lambda: GradientReversal("1.0"), "layers a schedule of `dann.schedules`.*strength='1.0'"),
    (lambda: GradientReversal(implementation="reverse"), "'op_override'. Received: .*'reverse'"),
    (
        lambda: GradientReversal(lambda step: 1.0),
        "strength function.*under this name Keras has None",
    ),
    (lambda: set_strength(GaninSchedule(10), 0.5), "without a schedule .*Construct .* a number"),
    (lambda: make_dense(kernel_estimator=None), "`estimator` to be one of .*estimator=None"),
    (lambda: make_dense(input_estimator=lambda x: x), "Expected a registered quantizer"),
    (
        lambda: make_dense(implementation="op_override", kernel_estimator="ede"),
        "one of 'override', 'stop_gradient'. Received: implementation='op_override'",
    ),
    (lambda: make_dense(input_estimator=MagnitudeAware()), "Use it as `kernel_estimator` only"),
    (lambda: BinaryConv2D(2, 3, lora_rank=1), "BinaryConv2D quantizes its kernel .* lora_rank=1"),
    (lambda: BinaryConv2D(2, 3, padding="same", pad_values=2), "`pad_values` .* -1.0, 0.0, 1.0"),
    (convolve_unknown_lengths, r"inputs of fixed lengths .* strides=\(2, 2\)"),
    (lambda: DomainBlend(rule="product"), "'difference', 'sum'. Received: rule='product'"),
    (lambda: DomainBlend()([IMAGES, GRAY_IMAGES]), "same number of channels. Received: 3 and 1"),
    (lambda: RandomConvolution((1, 2)), r"odd sizes. Received: kernel_sizes=\(1, 2\)"),
    (
        lambda: MultilinearMap().build([(5, 4), (5, 3, 1)]),
        r"predictions of shape \(batch, num_classes\). Received: shape \(5, 3, 1\)",
    ),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[words for _, words in REFUSALS])
def test_refusal_names_the_argument(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
