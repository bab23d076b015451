"""Keras layers around the functions of `dann.gradients`, and what augments a pair."""

from dann.layers.binary_conv1d import BinaryConv1D
from dann.layers.binary_conv2d import BinaryConv2D
from dann.layers.binary_conv2d_transpose import BinaryConv2DTranspose
from dann.layers.binary_conv3d import BinaryConv3D
from dann.layers.binary_dense import BinaryDense
from dann.layers.binary_depthwise_conv2d import BinaryDepthwiseConv2D
from dann.layers.binary_separable_conv2d import BinarySeparableConv2D
from dann.layers.binary_sign import BinarySign
from dann.layers.domain_blend import DomainBlend
from dann.layers.gradient_reversal import GradientReversal
from dann.layers.multilinear_map import MultilinearMap
from dann.layers.rprelu import RPReLU
from dann.layers.rsign import RSign
from dann.layers.weight_clip import WeightClip

__all__ = [
    "BinaryConv1D",
    "BinaryConv2D",
    "BinaryConv2DTranspose",
    "BinaryConv3D",
    "BinaryDense",
    "BinaryDepthwiseConv2D",
    "BinarySeparableConv2D",
    "BinarySign",
    "DomainBlend",
    "GradientReversal",
    "MultilinearMap",
    "RPReLU",
    "RSign",
    "WeightClip",
]
