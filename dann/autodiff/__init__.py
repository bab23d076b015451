"""Derivatives of functions of tensors on TensorFlow, JAX and PyTorch."""

from dann.autodiff.batches import batch_jacobian, frobenius_norm
from dann.autodiff.derivatives import gradients, hvp, jacobian, jvp, vjp
from dann.autodiff.singular_values import singular_values
