"""Derivatives of functions of tensors on TensorFlow, JAX and PyTorch."""

from dann.autodiff.batches import batch_jacobian as batch_jacobian
from dann.autodiff.batches import frobenius_norm as frobenius_norm
from dann.autodiff.derivatives import gradients as gradients
from dann.autodiff.derivatives import hvp as hvp
from dann.autodiff.derivatives import jacobian as jacobian
from dann.autodiff.derivatives import jvp as jvp
from dann.autodiff.derivatives import vjp as vjp
from dann.autodiff.singular_values import singular_values as singular_values
