"""Networks whose float arithmetic is exact on small integers, and helpers for their tests."""

import keras
import numpy as np
from keras import layers

import dann
from dann.gradients.estimators import DoReFa
from dann.layers import BinaryConv1D, BinaryConv2D, BinaryDense, BinaryDepthwiseConv2D, BinarySign


def normalize(x):
    return layers.BatchNormalization(momentum=0.9)(x)


def spread_statistics(model, seed=0):
    """Draws batch normalization with gammas of both signs and 0, and shifts that are not 0."""
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


def lenet():
    """Has one input channel, pooling before and after batch normalization, and a nested head."""
    inputs = keras.Input((14, 13, 1))
    x = BinaryConv2D(9, 3, input_estimator=None, use_bias=False)(inputs)
    x = normalize(layers.MaxPooling2D()(x))
    x = normalize(BinaryConv2D(70, 3, padding="same", use_bias=False)(x))
    x = layers.MaxPooling2D(padding="same")(x)
    features = keras.Input((630,))
    hidden = layers.Dropout(0.5)(normalize(BinaryDense(130, use_bias=False)(features)))
    head = keras.Model(features, normalize(BinaryDense(4)(hidden)), name="head")
    return keras.Model(inputs, head(layers.Flatten()(x)))


def residual():
    """Has real-valued shortcuts, all paddings, groups, a depthwise layer and learned shifts."""
    inputs = keras.Input((8, 7, 2))
    first = normalize(BinaryConv2D(6, 3, input_estimator=None, padding="same")(inputs))
    x = BinaryConv2D(6, 3, padding="same", use_bias=False)(first)
    second = layers.Add()([normalize(x), first])
    x = BinaryConv2D(6, 3, padding="same", pad_values=1.0, groups=2, use_bias=False)(second)
    x = layers.Add()([dann.layers.RPReLU()(normalize(x)), second])
    x = BinaryConv2D(66, (3, 2), strides=2, padding="same", pad_values=-1.0)(dann.layers.RSign()(x))
    x = normalize(layers.ReLU()(x))
    x = normalize(BinaryDepthwiseConv2D(2, depth_multiplier=2, padding="same")(x))
    x = normalize(BinaryConv2D(16, 3, dilation_rate=2, padding="same")(x))
    x = layers.Flatten()(x)
    return keras.Model(inputs, normalize(BinaryDense(5, use_bias=False)(x)))


def activations():
    """Has all activations and joins, some before a sign, where they become thresholds."""
    inputs = keras.Input((4, 4, 3))
    x = BinaryConv2D(5, 3, padding="same", use_bias=False)(inputs * 2.0 + 1.0)
    parts = [
        layers.ReLU()(normalize(x)),
        layers.ReLU(max_value=6)(x),
        layers.LeakyReLU(0.5)(x),
        layers.PReLU("ones", shared_axes=(1, 2))(x),
        layers.Activation("relu6")(x),
        layers.Activation("hard_tanh")(normalize(x)),
        keras.activations.relu(x),
        keras.ops.relu(x),
        keras.ops.leaky_relu(x, 0.5),
        keras.ops.hard_tanh(x),
    ]
    x = layers.Concatenate()(parts)
    signs = keras.ops.concatenate([BinarySign()(part) for part in parts], axis=-1)
    x = layers.Add()([x, signs, normalize(BinaryConv2D(50, 1, use_bias=False)(x))])
    return keras.Model(inputs, BinaryDense(9, use_bias=False)(layers.Flatten()(x)))


def levels():
    """Has XNOR-Net's input scaling, zero padding, two and three levels, and channel gates."""
    inputs = keras.Input((9, 8, 4))
    scaled = {"kernel_estimator": "magnitude_aware", "padding": "same", "use_bias": False}
    scale = keras.ops.mean(keras.ops.abs(inputs), axis=-1, keepdims=True)
    x = BinaryConv2D(6, 3, **scaled)(inputs) * layers.AveragePooling2D(2, 1, "same")(scale)
    x = layers.ZeroPadding2D(((1, 0), (0, 2)))(normalize(x))
    ternary = {"kernel_estimator": "ternary", "use_bias": False}
    first = BinaryConv2D(10, 3, input_estimator="ternary", **ternary)(x)
    x = BinaryConv2D(12, 3, 2, "same", input_estimator=DoReFa(1), **ternary)(normalize(first))
    x = normalize(BinaryDepthwiseConv2D(2, padding="same", kernel_estimator="ternary")(x))
    x = BinaryConv2D(70, 1, use_bias=False)(x) + BinaryConv2D(70, 1, use_bias=False)(x)
    x = normalize(x) * layers.GlobalMaxPooling2D(keepdims=True)(BinaryConv2D(70, 1)(x))
    x = layers.AveragePooling2D(2)(BinarySign(estimator="ternary")(x))
    x = BinaryDense(30, input_estimator=zero_or_one, **ternary)(layers.Flatten()(x))
    last = BinaryDense(5, input_estimator=None, kernel_estimator=zero_or_one, use_bias=False)
    return keras.Model(inputs, last(x))


def pooled():
    """Has pools of signs and of numbers that C computes in the loops of their readers."""
    inputs = keras.Input((10, 10, 2))
    x = normalize(BinaryConv2D(5, 3, input_estimator=None, use_bias=False)(inputs))
    x = BinaryConv2D(40, 3, padding="same", use_bias=False)(layers.MaxPooling2D()(x))
    x = normalize(layers.AveragePooling2D(2)(x))
    return keras.Model(inputs, BinaryDense(4, use_bias=False)(layers.Flatten()(x)))


def series():
    """Has causal convolutions along time, and a sign function as the estimators of a layer."""
    inputs = keras.Input((9, 3))
    x = BinaryConv1D(8, 3, input_estimator=None, padding="causal", dilation_rate=2)(inputs)
    x = BinaryConv1D(8, 3, padding="causal", pad_values=1, use_bias=False)(normalize(x))
    x = layers.Flatten()(normalize(layers.MaxPooling1D()(x)))
    last = BinaryDense(4, input_estimator=plain_sign, kernel_estimator=plain_sign)
    return keras.Model(inputs, last(x))


@keras.saving.register_keras_serializable("tests")
def plain_sign(x):
    return keras.ops.where(x >= 0, 1.0, -1.0)


@keras.saving.register_keras_serializable("tests")
def zero_or_one(x):
    return keras.ops.where(x > 0.1, 1.0, 0.0)


class EagerDense(keras.Model):
    """Calls NumPy, which fails on symbolic tensors."""

    def __init__(self):
        super().__init__(name="eager")
        self.dense = layers.Dense(3)

    def call(self, inputs):
        return self.dense(inputs + keras.ops.convert_to_numpy(inputs).max())


def eager():
    model = EagerDense()
    model(np.ones((1, 4), "float32"))
    return model


FUNCTIONS = lenet, residual, activations, levels, pooled, series
NETWORKS = {function.__name__: function for function in FUNCTIONS}


def integer_inputs(model, count, seed=1):
    """Returns small integers, on which the float layers are exact."""
    # `input_shape` begins with None for a Keras model, but not for a packed model.
    shape = (size for size in model.input_shape if size is not None)
    return np.random.default_rng(seed).integers(-3, 4, (count, *shape)).astype("float32")


def logits(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs, training=False))
