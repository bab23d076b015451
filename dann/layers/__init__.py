"""Keras layers around the functions of `dann.gradients`, and layers that join domains."""

from dann.layers.batch_normalization import BatchNormalization as BatchNormalization
from dann.layers.binary_convolutions import BinaryConv1D as BinaryConv1D
from dann.layers.binary_convolutions import BinaryConv1DTranspose as BinaryConv1DTranspose
from dann.layers.binary_convolutions import BinaryConv2D as BinaryConv2D
from dann.layers.binary_convolutions import BinaryConv2DTranspose as BinaryConv2DTranspose
from dann.layers.binary_convolutions import BinaryConv3D as BinaryConv3D
from dann.layers.binary_convolutions import BinaryConv3DTranspose as BinaryConv3DTranspose
from dann.layers.binary_convolutions import BinaryDepthwiseConv2D as BinaryDepthwiseConv2D
from dann.layers.binary_dense import BinaryDense as BinaryDense
from dann.layers.binary_sign import BinarySign as BinarySign
from dann.layers.domain_blend import DomainBlend as DomainBlend
from dann.layers.gradient_reversal import GradientReversal as GradientReversal
from dann.layers.multilinear_map import MultilinearMap as MultilinearMap
from dann.layers.random_convolution import RandomConvolution as RandomConvolution
from dann.layers.shifted_activations import RPReLU as RPReLU
from dann.layers.shifted_activations import RSign as RSign
from dann.layers.weight_clip import WeightClip as WeightClip
