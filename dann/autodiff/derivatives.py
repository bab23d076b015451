"""Gradients and products with Jacobians and Hessians of any function of tensors."""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import keras
from keras import ops

from dann.autodiff.arguments import floating_outputs, floating_tensors, tensors_like
from dann.autodiff.engines import engine, push_forward, unit_tensor
from dann.autodiff.functions import as_function
from dann.checks import check_integer


def gradients(
    function: Callable[..., Any],
    xs: Sequence[Any],
    grad_ys: Sequence[Any] | None = None,
    stop_gradients: Sequence[int] = (),
    unconnected_gradients: str = "zero",
) -> list[Any]:
    """Returns the gradients of the outputs of a function with respect to each of its arguments.

    With outputs `y_1, ..., y_n` and upstream gradients `g_1, ..., g_n`,

    - `gradients(f, [x_1, x_2], [g_1, ..., g_n])[i] = sum_n g_n^T dy_n/dx_i`

    For a scalar this is the plain gradient; for several tensors without `grad_ys` it is the
    gradient of the sum of all their elements. The result can be differentiated again. This is
    `tf.gradients` for a function instead of a graph.

    Args:
        function: Function of as many tensors as `xs` contains that returns a floating-point tensor
            or any nested structure of such tensors; or a Keras model, which is called with
            `training=False` and gets several tensors as one list.
        xs: List of floating-point tensors, arrays or variables. The function gets the value of a
            variable. If it also reads the variable itself, as a model reads its weights, the
            gradient includes that dependence.
        grad_ys: List of upstream gradients, one per output in the order of `keras.tree.flatten`, in
            the shape and type of the output. Defaults to `None`, ones.
        stop_gradients: Indices of the arguments to treat as constants: nothing flows through them,
            and they count as unconnected. The arguments of a function are independent anyway; for a
            tensor that the function itself computes, call `keras.ops.stop_gradient` in the
            function. Defaults to `()`.
        unconnected_gradients: Gradient of an argument on which the outputs do not depend: `"zero"`
            for zeros, `"none"` for `None`. JAX supports only `"zero"`. Defaults to `"zero"`.

    Returns:
        A list of tensors, each in the shape of its argument.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow, JAX and torch; on JAX with
            `unconnected_gradients="none"`.
        TypeError: If an argument, an output or an upstream gradient is not floating.
        ValueError: If the number, shape or type of `grad_ys` does not fit the outputs, or another
            argument is out of range.

    Example:

    >>> import keras
    >>> from dann.autodiff import gradients
    >>> x = keras.ops.convert_to_tensor([1.0, 2.0])
    >>> gradient = gradients(lambda x: keras.ops.sum(x**2), [x])[0]
    >>> [float(value) for value in gradient]
    [2.0, 4.0]
    >>> gradient = gradients(lambda x: x**2, [x], grad_ys=[[10.0, 1.0]])[0]
    >>> [float(value) for value in gradient]
    [20.0, 4.0]
    """
    call, xs = as_function(function), floating_tensors(xs, "xs")
    constants = {check_integer("stop_gradients", index, 0, len(xs) - 1) for index in stop_gradients}

    def call_with_constants(*xs):
        return call(*(ops.stop_gradient(x) if i in constants else x for i, x in enumerate(xs)))

    outputs, pull = engine.pull_back(call_with_constants, xs)
    outputs = floating_outputs(outputs)
    upstream = [ops.ones_like(output) for output in outputs]
    if grad_ys is not None:
        upstream = tensors_like(grad_ys, "grad_ys", outputs)
    return pull(upstream, unconnected_gradients)


def vjp(
    function: Callable[..., Any], xs: Sequence[Any], vs: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Returns the outputs of a function and the products of vectors with its Jacobian: `v^T J`.

    Args:
        function: Function of as many tensors as `xs` contains, or a Keras model; see `gradients`.
        xs: List of floating-point tensors, arrays or variables.
        vs: List of tensors, one per output, in the shape and type of the output.

    Returns:
        The outputs as `function` returned them, and a list of tensors, each in the shape of its
        argument.

    Raises:
        TypeError: If an argument, an output or a vector is not floating.
        ValueError: If `vs` does not fit the outputs.

    Example:

    >>> import keras
    >>> from dann.autodiff import vjp
    >>> outputs, products = vjp(lambda x: x**2, [[1.0, 2.0]], [[10.0, 1.0]])
    >>> [float(value) for value in products[0]]
    [20.0, 4.0]
    """
    outputs, pull = engine.pull_back(as_function(function), floating_tensors(xs, "xs"))
    return outputs, pull(tensors_like(vs, "vs", floating_outputs(outputs)), "zero")


# Keras 3.16 has a `jvp` in forward mode. It can replace this function where no custom backward pass
# must be followed.
def jvp(function: Callable[..., Any], xs: Sequence[Any], vs: Sequence[Any]) -> tuple[Any, Any]:
    """Returns the outputs of a function and the products of its Jacobian with vectors: `J v`.

    Two backward passes make a forward pass: `u^T J` is linear in `u`, and its gradient with respect
    to `u` along `v` is `J v`. The product therefore follows a custom backward pass, where forward
    mode silently uses the derivative of the forward pass, or raises an error.

    Under XLA, TensorFlow's second derivative of max pooling compares in bfloat16 and is wrong. Do
    not compile such a product with `jit_compile=True`.

    Args:
        function: Function of as many tensors as `xs` contains, or a Keras model; see `gradients`.
        xs: List of floating-point tensors, arrays or variables.
        vs: List of tensors, one per element of `xs`, in its shape and type.

    Returns:
        The outputs as `function` returned them, and their tangents in the same structure.

    Raises:
        TypeError: If an argument, an output or a vector is not floating.
        ValueError: If `vs` does not fit `xs`.

    Example:

    >>> import keras
    >>> from dann.autodiff import jvp
    >>> outputs, tangents = jvp(lambda x, y: x * y, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0]] * 2)
    >>> [float(value) for value in tangents]
    [4.0, 0.0]
    """
    xs = floating_tensors(xs, "xs")
    vs = tensors_like(vs, "vs", xs)
    outputs, pull = engine.pull_back(as_function(function), xs)
    push = push_forward(floating_outputs(outputs), pull)
    return outputs, keras.tree.pack_sequence_as(outputs, push(vs))


def hvp(function: Callable[..., Any], xs: Sequence[Any], vs: Sequence[Any]) -> list[Any]:
    """Returns the products of a scalar's Hessian with vectors: `H v`.

    - `hvp(f, xs, vs)[i] = sum_j d2f/(dx_i dx_j) v_j`

    The product is computed as the gradient of `sum_j v_j^T df/dx_j`. For a backward pass that is
    not the derivative, it is the product with the transposed Jacobian of the gradient.

    Args:
        function: Function of as many tensors as `xs` contains that returns a scalar. Other outputs
            are summed.
        xs: List of floating-point tensors, arrays or variables.
        vs: List of tensors, one per element of `xs`, in its shape and type.

    Returns:
        A list of tensors, each in the shape of its argument.

    Raises:
        TypeError: If an argument, an output or a vector is not floating.
        ValueError: If `vs` does not fit `xs`.

    Example:

    >>> import keras
    >>> from dann.autodiff import hvp
    >>> products = hvp(lambda x: keras.ops.sum(x**3), [[1.0, 2.0]], [[1.0, 1.0]])
    >>> [float(value) for value in products[0]]
    [6.0, 12.0]
    """
    xs = floating_tensors(xs, "xs")

    def compute_gradients(*tensors):
        # A variable is passed on, because the function may read it.
        pairs = zip(xs, tensors, strict=True)
        return gradients(function, [x if isinstance(x, engine.VARIABLES) else t for x, t in pairs])

    # H is symmetric, so `v^T H`, one backward pass, equals `H v`.
    return vjp(compute_gradients, xs, tensors_like(vs, "vs", xs))[1]


def jacobian(function: Callable[..., Any], xs: Any) -> Any:
    """Returns the Jacobian of the output of a function with respect to its arguments.

    - `jacobian(f, x)[i, j] = df_i/dx_j`, with multi-indices `i` and `j`

    Every output is differentiated with respect to every input, also across examples, so the size
    of the Jacobian grows with the square of the batch size. If examples are independent,
    `batch_jacobian` returns the blocks that are not 0. A Hessian is the Jacobian of `gradients`.

    Args:
        function: Function of as many tensors as `xs` contains that returns one tensor; or a Keras
            model, which is called with `training=False`.
        xs: Floating-point tensor, array or variable, or a list of them. Sizes may be unknown in a
            function that is being compiled.

    Returns:
        A tensor in the shape of the output followed by the shape of `xs`; for a list, a list.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow, JAX and torch.
        TypeError: If `xs` or the output is not floating.
        ValueError: If there are several outputs.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from dann.autodiff import jacobian
    >>> matrix = jacobian(lambda x: keras.ops.cumsum(x) ** 2, np.array([1.0, 2.0]))
    >>> [[float(value) for value in row] for row in matrix]
    [[2.0, 0.0], [6.0, 6.0]]
    """
    is_list = isinstance(xs, list | tuple)
    arguments = floating_tensors(xs if is_list else [xs], "xs")
    outputs, pull = engine.pull_back(as_function(function), arguments)
    tensors = floating_outputs(outputs)
    if len(tensors) > 1:
        raise ValueError(
            f"Expected a function with one output. Received: {len(tensors)} outputs. Pass one "
            "function per output"
        )
    # Unknown sizes are tensors.
    y_shape, *x_shapes = cast(Any, [ops.shape(tensor) for tensor in (tensors[0], *arguments)])

    def row(number):
        return pull([unit_tensor(number, y_shape, tensors[0].dtype)])

    # One tensor `(outputs, *x_shape)` per argument.
    rows = engine.map_range(row, math.prod(y_shape), [x.dtype for x in arguments])
    pairs = zip(rows, x_shapes, strict=True)
    jacobians = [ops.reshape(row, (*y_shape, *x_shape)) for row, x_shape in pairs]
    return jacobians if is_list else jacobians[0]
