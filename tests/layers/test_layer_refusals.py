import keras
import numpy as np
import pytest

from dann.gradients.estimators import DoReFa, MagnitudeAware
from dann.layers import (
    BinaryConv2D,
    BinaryDense,
    DomainBlend,
    GradientReversal,
    MultilinearMap,
    RandomConvolution,
    WeightClip,
)
from dann.schedules import GaninSchedule

ROWS = np.ones((2, 3), "float32")


def function_whose_name_another_has():
    first = keras.saving.register_keras_serializable("tests", "twice")(lambda step: 0.5 * step)
    keras.saving.register_keras_serializable("tests", "twice")(lambda step: step)
    return first


def with_strength(first, second):
    GradientReversal(first).strength = second


def built():
    layer = BinaryDense(2)
    layer.build((None, 3))
    return layer


def of_unknown_lengths(strides):
    images = keras.Input((None, None, 2))
    layer = BinaryConv2D(3, 3, padding="same", pad_values=1, strides=strides)
    layer.build(images.shape)
    return layer.apply(images, layer.binary_kernel())


def of_policy(layer, policy):
    layer.dtype_policy = policy
    return layer


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: GradientReversal(-0.1), ValueError),
        (lambda: GradientReversal(float("nan")), ValueError),
        (lambda: GradientReversal("1.0"), TypeError),
        (lambda: GradientReversal(implementation="reverse"), ValueError),
        (lambda: GradientReversal(lambda step: 1.0), ValueError),  # has no name for files
        (lambda: GradientReversal(function_whose_name_another_has()), ValueError),
        (lambda: with_strength(1.0, -1), ValueError),
        (lambda: with_strength(GaninSchedule(10), 0.5), ValueError),
        (lambda: BinaryDense(2, kernel_estimator=None), ValueError),
        (lambda: BinaryDense(2, input_estimator=lambda x: x), ValueError),
        (lambda: BinaryDense(2, kernel_estimator=keras.layers.PReLU()), ValueError),
        (lambda: BinaryDense(2, implementation="ste"), ValueError),
        (lambda: GradientReversal(lambda_=0.3), TypeError),
        (lambda: BinaryDense(2, implementation="op_override", kernel_estimator="ede"), ValueError),
        (
            lambda: BinaryDense(
                2, implementation="op_override", kernel_estimator="magnitude_aware"
            ),
            ValueError,
        ),
        (lambda: BinaryDense(2, input_estimator=MagnitudeAware()), ValueError),
        (lambda: BinaryDense(2, kernel_estimator=DoReFa()), ValueError),
        (lambda: BinaryDense(2, dtype="int8_from_float32"), ValueError),
        (lambda: BinaryConv2D(2, 3, lora_rank=1), ValueError),
        (lambda: built().quantize("int8"), ValueError),
        (lambda: of_policy(BinaryDense(2), "int8_from_float32")(ROWS), ValueError),
        (lambda: BinaryConv2D(2, 3, padding="same", pad_values=2), ValueError),
        (lambda: of_unknown_lengths(2), ValueError),
        (lambda: WeightClip(0), ValueError),
        (lambda: DomainBlend(1.5), ValueError),
        (lambda: DomainBlend(rule="product"), ValueError),
        (lambda: DomainBlend()([np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4, 1))]), ValueError),
        (lambda: RandomConvolution((1, 2)), ValueError),
        (lambda: MultilinearMap().build([(5, 4), (5, 3, 1)]), ValueError),
    ],
)
def test_what_would_be_wrong_in_silence_or_late_is_refused(make, error):
    with pytest.raises(error):
        make()
