"""Networks to pack, whose float arithmetic is exact, and a reference for single layers."""

import keras
import numpy as np
from keras import layers

from dann.gradients.estimators import DoReFa
from dann.layers import (
    BinaryConv2D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySign,
    RPReLU,
    RSign,
)


def normalized(x):
    return layers.BatchNormalization(momentum=0.9)(x)


def spread_statistics(model, seed=0):
    """Batch norms with gammas of both signs and 0, and other shifts than at the start."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        shape = weight.shape
        if weight.name in ("gamma", "slope"):
            values = rng.choice([-1.5, -0.5, 0.0, 0.25, 2.0], shape)
        elif weight.name in ("beta", "threshold", "input_shift", "output_shift"):
            values = rng.integers(-4, 5, shape) / 4
        elif weight.name == "moving_mean":
            values = rng.integers(-12, 13, shape) / 4
        elif weight.name == "moving_variance":
            values = rng.uniform(0.5, 20.0, shape)
        else:
            continue
        weight.assign(values)
    return model


def perceptron():
    """Sizes that fill no word, and a binary last layer."""
    inputs = keras.Input((5, 7))
    x = layers.Flatten()(inputs)
    x = normalized(BinaryDense(70, input_estimator=None, use_bias=False)(x))
    x = normalized(BinaryDense(130, bias_initializer="ones")(x))
    x = normalized(BinaryDense(65, kernel_estimator="magnitude_aware", use_bias=False)(x))
    x = layers.Dropout(0.5)(x)
    return keras.Model(inputs, normalized(BinaryDense(3, use_bias=False)(x)))


def lenet():
    """One channel in, pooling before and after batch norm, a nested head with shared layers."""
    inputs = keras.Input((14, 13, 1))
    x = BinaryConv2D(9, 3, input_estimator=None, use_bias=False)(inputs)
    x = normalized(layers.MaxPooling2D()(x))
    x = normalized(BinaryConv2D(70, 3, padding="same", use_bias=False)(x))
    x = layers.MaxPooling2D(padding="same")(x)
    features = keras.Input((630,))
    hidden = normalized(BinaryDense(20, use_bias=False)(features))
    head = keras.Model(features, normalized(BinaryDense(4)(hidden)), name="head")
    return keras.Model(inputs, head(layers.Flatten()(x)))


def residual():
    """Shortcuts of real values, every padding, groups, depthwise, learnt shifts."""
    inputs = keras.Input((8, 7, 2))
    first = normalized(BinaryConv2D(6, 3, input_estimator=None, padding="same")(inputs))
    x = BinaryConv2D(6, 3, padding="same", use_bias=False)(first)
    second = layers.Add()([normalized(x), first])
    x = BinaryConv2D(6, 3, padding="same", pad_values=1.0, groups=2, use_bias=False)(second)
    x = layers.Add()([RPReLU()(normalized(x)), second])
    x = BinaryConv2D(66, (3, 2), strides=2, padding="same", pad_values=-1.0)(RSign()(x))
    x = normalized(layers.ReLU()(x))
    x = normalized(BinaryDepthwiseConv2D(2, depth_multiplier=2, padding="same")(x))
    x = normalized(BinaryConv2D(16, 3, dilation_rate=2, padding="same")(x))
    x = layers.Flatten()(x)
    return keras.Model(inputs, normalized(BinaryDense(5, use_bias=False)(x)))


def activations():
    """Activations and joins in every form, also before a sign, where some become a threshold."""
    inputs = keras.Input((4, 4, 3))
    x = BinaryConv2D(5, 3, padding="same", use_bias=False)(inputs * 2.0 + 1.0)
    parts = [
        layers.ReLU()(normalized(x)),
        layers.ReLU(max_value=6)(x),
        layers.LeakyReLU(0.5)(x),
        layers.PReLU("ones", shared_axes=(1, 2))(x),
        layers.Activation("relu6")(x),
        layers.Activation("hard_tanh")(normalized(x)),
        keras.activations.relu(x),
        keras.ops.relu(x),
        keras.ops.leaky_relu(x, 0.5),
        keras.ops.hard_tanh(x),
    ]
    x = layers.Concatenate()(parts)
    signs = keras.ops.concatenate([BinarySign()(one) for one in parts], axis=-1)
    x = layers.Add()([x, signs, normalized(BinaryConv2D(50, 1, use_bias=False)(x))])
    return keras.Model(inputs, BinaryDense(9, use_bias=False)(layers.Flatten()(x)))


def levels():
    """XNOR-Net's scaling of inputs, zeros around, three levels and two, a gate a channel."""
    inputs = keras.Input((9, 8, 4))
    scaled = {"kernel_estimator": "magnitude_aware", "padding": "same", "use_bias": False}
    scale = keras.ops.mean(keras.ops.abs(inputs), axis=-1, keepdims=True)
    x = BinaryConv2D(6, 3, **scaled)(inputs) * layers.AveragePooling2D(2, 1, "same")(scale)
    x = layers.ZeroPadding2D(((1, 0), (0, 2)))(normalized(x))
    ternary = {"kernel_estimator": "ternary", "use_bias": False}
    first = BinaryConv2D(10, 3, input_estimator="ternary", **ternary)(x)
    x = BinaryConv2D(12, 3, 2, "same", input_estimator=DoReFa(1), **ternary)(normalized(first))
    x = normalized(BinaryDepthwiseConv2D(2, padding="same", kernel_estimator="ternary")(x))
    x = BinaryConv2D(70, 1, use_bias=False)(x) + BinaryConv2D(70, 1, use_bias=False)(x)
    x = normalized(x) * layers.GlobalMaxPooling2D(keepdims=True)(BinaryConv2D(70, 1)(x))
    x = layers.AveragePooling2D(2)(BinarySign(estimator="ternary")(x))
    x = BinaryDense(30, input_estimator=zero_or_one, **ternary)(layers.Flatten()(x))
    last = BinaryDense(5, input_estimator=None, kernel_estimator=zero_or_one, use_bias=False)
    return keras.Model(inputs, last(x))


def separable():
    """Depthwise convolutions with one of a pixel after them, on whole numbers and on signs."""
    inputs = keras.Input((7, 6, 3))
    x = normalized(BinaryDepthwiseConv2D(3, padding="same", use_bias=False)(inputs))
    x = normalized(BinaryConv2D(40, 1, use_bias=False)(x))
    x = BinaryDepthwiseConv2D(3, depth_multiplier=2, use_bias=False)(x)
    x = normalized(BinaryConv2D(33, 1, input_estimator=None, use_bias=False)(x))
    return keras.Model(inputs, BinaryDense(4, use_bias=False)(layers.Flatten()(x)))


def pooled():
    """Pools of signs and of numbers, each computed in the loop of what reads it."""
    inputs = keras.Input((10, 10, 2))
    x = normalized(BinaryConv2D(5, 3, input_estimator=None, use_bias=False)(inputs))
    x = BinaryConv2D(40, 3, padding="same", use_bias=False)(layers.MaxPooling2D()(x))
    x = normalized(layers.AveragePooling2D(2)(x))
    return keras.Model(inputs, BinaryDense(4, use_bias=False)(layers.Flatten()(x)))


@keras.saving.register_keras_serializable("tests")
def zero_or_one(x):
    return keras.ops.where(x > 0.1, 1.0, 0.0)


NETWORKS = {
    "perceptron": perceptron,
    "lenet": lenet,
    "residual": residual,
    "activations": activations,
    "levels": levels,
    "separable": separable,
    "pooled": pooled,
}


def whole_inputs(model, count, seed=1):
    """Small integers, on which the float layers are exact."""
    # A packed model has no batch.
    shape = (size for size in model.input_shape if size is not None)
    return np.random.default_rng(seed).integers(-3, 4, (count, *shape)).astype("float32")


def logits(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs, training=False))
