"""Small binary layers of every class, their inputs, and their linear parts in Keras."""

import keras
import numpy as np

from dann import layers

LAYERS = {  # positional arguments and the shape of the inputs
    layers.BinaryDense: ((3,), (2, 3, 5)),
    layers.BinaryConv1D: ((4, 3), (2, 6, 2)),
    layers.BinaryConv2D: ((4, 3), (2, 5, 6, 2)),
    layers.BinaryConv3D: ((4, 2), (2, 3, 4, 3, 2)),
    layers.BinaryDepthwiseConv2D: ((3,), (2, 5, 6, 2)),
    layers.BinaryConv1DTranspose: ((4, 3), (2, 4, 2)),
    layers.BinaryConv2DTranspose: ((4, 3), (2, 3, 4, 2)),
    layers.BinaryConv3DTranspose: ((2, 2), (2, 2, 3, 2, 2)),
}


def make_inputs(cls):
    """Returns normal numbers with zeros and both edges of the clip."""
    inputs = np.random.default_rng(1).normal(size=LAYERS[cls][1]).astype("float32")
    inputs.reshape(-1)[:5] = [0.0, -0.0, 1.0, -1.0, 1.5]
    return inputs


def make_layer(cls, **arguments):
    """Returns a layer with latent weights inside and outside [-1, 1], at 0 and both edges."""
    layer = cls(*LAYERS[cls][0], **arguments)
    layer.build(LAYERS[cls][1])
    weights = np.random.default_rng(2).normal(size=layer.kernel.shape)
    weights.reshape(-1)[:4] = [0.0, 1.0, -1.0, 1.25]
    layer.kernel.assign(weights)
    return layer


def make_linear(layer, value=0.0):
    """Returns the linear part of a layer as a function of inputs and kernel, by its Keras layer.

    A convolution of inputs `x` padded with `value` is the convolution of `x - value` padded with 0,
    plus `value` times the sum of the kernel.
    """
    cls = type(layer)
    keras_class = getattr(keras.layers, cls.__name__.removeprefix("Binary"))
    config = {key: layer.get_config()[key] for key in keras_class(*LAYERS[cls][0]).get_config()}
    config |= {"use_bias": False, "activation": None, "dtype": "float32"}
    reference = keras_class.from_config(config)
    reference.build(LAYERS[cls][1])
    summed_axes = tuple(range(len(layer.kernel.shape)))[: -2 if "Depthwise" in str(cls) else -1]

    def linear(inputs, kernel):
        reference.kernel.assign(kernel)
        outputs = keras.ops.convert_to_numpy(reference(np.float32(inputs - value)))
        return outputs + value * np.sum(kernel, axis=summed_axes).reshape(-1) if value else outputs

    return linear


def differentiate_bilinear(function, inputs, kernel, upstream):
    """Returns both gradients of `sum(upstream * function(inputs, kernel))` by basis vectors."""

    def differentiate(linear, shape):
        basis = np.eye(np.prod(shape)).reshape(-1, *shape)
        return np.reshape([np.sum(upstream * linear(vector)) for vector in basis], shape)

    # A padding other than 0 makes the function affine in its inputs.
    offset = function(np.zeros_like(inputs), kernel)
    input_gradient = differentiate(lambda x: function(x, kernel) - offset, inputs.shape)
    return input_gradient, differentiate(lambda w: function(inputs, w), kernel.shape)
