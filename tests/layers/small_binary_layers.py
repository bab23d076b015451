"""Small binary layers of every class, and their inputs."""

import numpy as np
from numpy_convolution import convolution, depthwise_convolution, transposed_convolution

from dann import layers
from dann.layers import BinaryConv1D, BinaryConv2D, BinaryConv3D, BinaryDense, BinaryDepthwiseConv2D

TRANSPOSED = [getattr(layers, f"BinaryConv{rank}DTranspose") for rank in (1, 2, 3)]
BinaryConv1DTranspose, BinaryConv2DTranspose, BinaryConv3DTranspose = TRANSPOSED
LAYERS = {  # positional arguments and the shape of the inputs
    BinaryDense: ((3,), (2, 3, 5)),
    BinaryConv1D: ((4, 3), (2, 6, 2)),
    BinaryConv2D: ((4, 3), (2, 5, 6, 2)),
    BinaryConv3D: ((4, 2), (2, 3, 4, 3, 2)),
    BinaryDepthwiseConv2D: ((3,), (2, 5, 6, 2)),
    BinaryConv1DTranspose: ((4, 3), (2, 4, 2)),
    BinaryConv2DTranspose: ((4, 3), (2, 3, 4, 2)),
    BinaryConv3DTranspose: ((2, 2), (2, 2, 3, 2, 2)),
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


def apply_in_numpy(layer, inputs, kernel, value=0.0):
    """Returns the linear part of a layer for real numbers, padded with `value`."""
    if isinstance(layer, BinaryDense):
        return inputs @ kernel
    if type(layer) in TRANSPOSED:
        return transposed_convolution(inputs, kernel, layer.strides[0])
    geometry = {"strides": layer.strides[0], "dilations": layer.dilation_rate[0]}
    geometry |= {"padding": layer.padding, "value": value}
    if isinstance(layer, BinaryDepthwiseConv2D):
        return depthwise_convolution(inputs, kernel, **geometry)
    return convolution(inputs, kernel, groups=layer.groups, **geometry)
