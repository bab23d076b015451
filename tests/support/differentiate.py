"""Values and gradients as NumPy arrays, on the current backend, eager, in a graph and with XLA."""

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()
IMPLEMENTATIONS = ["override", "stop_gradient"] + ["op_override"] * (BACKEND == "tensorflow")
# Zeros, clip edges and nonfinite values.
EDGES = [-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan]
DTYPES = ["float32", "float16", "bfloat16"] + ["float64"] * (BACKEND == "tensorflow")


def value_and_gradients(function, *inputs, upstream=None, compiled=False):
    """Returns `function(*inputs)` and the gradient of `sum(upstream * function)` for each input.

    `compiled` is a boolean or `"xla"`.
    """
    tensors = [keras.ops.convert_to_tensor(value) for value in inputs]
    if upstream is None:
        upstream = np.ones(tensors[0].shape)
    upstream = keras.ops.convert_to_tensor(upstream, tensors[0].dtype)
    value, gradients = _differentiated(function, upstream, compiled)(*tensors)
    return as_array(value), [as_array(gradient) for gradient in gradients]


def values_and_gradients(functions, inputs, upstreams, compiled=False):
    """Calls `value_and_gradients` for several functions of one input in a single trace."""

    def differentiate(inputs, upstreams):
        arguments = zip(functions, inputs, upstreams, strict=True)
        return [_differentiated(f, upstream, False)(x) for f, x, upstream in arguments]

    pairs = compile_function(differentiate, compiled)(
        [keras.ops.convert_to_tensor(array) for array in inputs],
        [keras.ops.convert_to_tensor(array) for array in upstreams],
    )
    return [(as_array(value), as_array(gradient)) for value, (gradient,) in pairs]


def compile_function(function, compiled):
    """Returns the function, in a graph if `compiled` is true, by XLA if it is `"xla"`."""
    if not compiled or BACKEND == "torch":  # which Keras runs eagerly
        return function
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=compiled == "xla")
    import jax

    return jax.jit(function)


def _differentiated(function, upstream, compiled):
    differentiate_on_backend = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[BACKEND]
    return differentiate_on_backend(function, upstream, compiled)


def _tensorflow(function, upstream, compiled):
    import tensorflow as tf

    def differentiate(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = function(*inputs)
        zero = tf.UnconnectedGradients.ZERO
        return value, tape.gradient(value, inputs, upstream, unconnected_gradients=zero)

    return compile_function(differentiate, compiled)


def _jax(function, upstream, compiled):
    import jax

    def differentiate(*inputs):
        value, pull_back = jax.vjp(function, *inputs)
        return value, pull_back(upstream)

    return compile_function(differentiate, compiled)


def _torch(function, upstream, compiled):
    import torch

    def differentiate(*inputs):
        inputs = [x if x.requires_grad else x.detach().requires_grad_() for x in inputs]
        value = function(*inputs)
        if not value.requires_grad:
            return value, [torch.zeros_like(x) for x in inputs]
        options = {"create_graph": True, "materialize_grads": True}
        return value, torch.autograd.grad(value, inputs, upstream, **options)

    return differentiate


def derivative(function, inputs, order):
    """Returns the derivative of an order of an elementwise function."""
    inputs = keras.ops.convert_to_tensor(inputs)
    for _ in range(order):
        function = _differentiate(function, keras.ops.ones_like(inputs))
    return as_array(function(inputs))


def _differentiate(function, upstream):
    return lambda x: _differentiated(function, upstream, False)(x)[1][0]


def as_array(tensor):
    """Converts a tensor to NumPy with the same data type (bfloat16 by `ml_dtypes`)."""
    return keras.ops.convert_to_numpy(tensor)


def tensor(values, dtype):
    return keras.ops.convert_to_tensor(np.asarray(values, "float64"), dtype)


def bits(tensor):
    """Returns the bits of a float tensor, which distinguish -0.0 from +0.0 and NaNs.

    The sign of a NaN mean of bfloat16 is random on torch, so all NaNs are made equal there.
    """
    array = as_array(tensor)
    if BACKEND == "torch":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.view(f"uint{8 * array.dtype.itemsize}")


def run_in_mode(function, mode):
    if BACKEND == "torch":
        return lambda *args: keras.tree.map_structure(lambda t: t.detach(), function(*args))
    return compile_function(function, {"eager": False, "graph": True, "xla": "xla"}[mode])


# JAX has one way to compile, XLA; torch always runs eagerly.
EAGER = pytest.param("eager", marks=pytest.mark.tensorflow)
XLA = pytest.param("xla", marks=[pytest.mark.slow, pytest.mark.tensorflow])
parametrize_mode = pytest.mark.parametrize("mode", [EAGER, "graph", XLA])
