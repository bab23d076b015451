"""Values and gradients as NumPy arrays, on whichever backend runs."""

import keras
import numpy as np

BACKEND = keras.backend.backend()
IMPLEMENTATIONS = ["override", "stop_gradient"] + ["op_override"] * (BACKEND == "tensorflow")
# Zeros, edges of the clip, and what is not finite.
EDGES = [-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan]
DTYPES = ["float32", "float16", "bfloat16"] + ["float64"] * (BACKEND == "tensorflow")


def value_and_gradients(function, *inputs, upstream=None, compiled=False):
    """Returns `function(*inputs)` and the gradient of `sum(upstream * function)` for each input.

    `compiled` is a truth value, or `"xla"`.
    """
    tensors = [keras.ops.convert_to_tensor(value) for value in inputs]
    if upstream is None:
        upstream = np.ones(tensors[0].shape)
    upstream = keras.ops.convert_to_tensor(upstream, tensors[0].dtype)
    value, gradients = _differentiated(function, upstream, compiled)(*tensors)
    return as_array(value), [as_array(gradient) for gradient in gradients]


def values_and_gradients(functions, inputs, upstreams, compiled=False):
    """`value_and_gradients` of several functions, each of one input, in a single trace."""

    def differentiate(inputs, upstreams):
        arguments = zip(functions, inputs, upstreams, strict=True)
        return [_differentiated(f, upstream, False)(x) for f, x, upstream in arguments]

    pairs = compile_function(differentiate, compiled)(
        [keras.ops.convert_to_tensor(array) for array in inputs],
        [keras.ops.convert_to_tensor(array) for array in upstreams],
    )
    return [(as_array(value), as_array(gradient)) for value, (gradient,) in pairs]


def compile_function(function, how):
    """The function in a graph if `how` is true, compiled by XLA if it is `"xla"`."""
    if not how or BACKEND == "torch":  # which Keras runs eagerly
        return function
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=how == "xla")
    import jax

    return jax.jit(function)


def _differentiated(function, upstream, compiled):
    of_backend = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[BACKEND]
    return of_backend(function, upstream, compiled)


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
            return value, [torch.zeros_like(each) for each in inputs]
        options = {"create_graph": True, "materialize_grads": True}
        return value, torch.autograd.grad(value, inputs, upstream, **options)

    return differentiate


def derivative(function, inputs, order):
    """Differentiates `order` times the sum of a function that works element by element."""
    inputs = keras.ops.convert_to_tensor(inputs)
    for _ in range(order):
        function = _slope_of(function, keras.ops.ones_like(inputs))
    return as_array(function(inputs))


def _slope_of(function, upstream):
    return lambda x: _differentiated(function, upstream, False)(x)[1][0]


def as_array(tensor):
    """The same values in NumPy, in the same data type (bfloat16 by `ml_dtypes`)."""
    return keras.ops.convert_to_numpy(tensor)


def tensor(values, dtype):
    return keras.ops.convert_to_tensor(np.asarray(values, "float64"), dtype)


def bits(tensor):
    """The bits of a floating tensor, which tell -0.0 from +0.0 and one NaN from another.

    In a mean of bfloat16 that is not a number, torch leaves the sign to chance.
    """
    array = as_array(tensor)
    if BACKEND == "torch":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.view(f"uint{8 * array.dtype.itemsize}")
