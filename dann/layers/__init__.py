"""Keras layers around the functions of `dann.gradients`."""

from dann.layers.binary_sign import BinarySign
from dann.layers.gradient_reversal import GradientReversal
from dann.layers.multilinear_map import MultilinearMap

__all__ = ["BinarySign", "GradientReversal", "MultilinearMap"]
