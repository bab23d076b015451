"""Keras layers around the functions of `dann.gradients`, and layers that join domains."""

from dann.layers.batch_normalization import (
    BatchNormalization,
    with_keras_batch_normalization,
)
from dann.layers.binary_convolutions import (
    BinaryConv1D,
    BinaryConv1DTranspose,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryConv3DTranspose,
    BinaryDepthwiseConv2D,
)
from dann.layers.binary_dense import BinaryDense
from dann.layers.binary_sign import BinarySign
from dann.layers.domain_blend import DomainBlend
from dann.layers.gradient_reversal import GradientReversal
from dann.layers.multilinear_map import MultilinearMap
from dann.layers.random_convolution import RandomConvolution
from dann.layers.shifted_activations import RPReLU, RSign
from dann.layers.weight_clip import WeightClip
