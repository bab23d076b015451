"""Way 1 for TensorFlow graphs: the gradient of an operation, overridden by its type."""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "Only TensorFlow overrides operations; use another `implementation` than 'op_override'"
    )

import tensorflow as tf

from dann.gradients.override import check_gradients

_numbers = itertools.count()


def override_op_gradients(function: Callable, overrides: Mapping[str, str | Callable]) -> Callable:
    """Overrides the gradients of all operations of given types inside a function.

    In TensorFlow 1 this was `with graph.gradient_override_map({"Sign": "QuantizeGrad"}):`.
    TensorFlow 2 silently ignores that in eager mode and whenever the tape is in the function that
    holds the operation, as in Keras' `fit`. Here `function` becomes a graph of its own, and the
    override works in eager mode, in `tf.function` with the tape inside or outside, under XLA, in
    `fit`, and under `tf.config.run_functions_eagerly(True)`.

    For a `SavedModel` that is differentiated after it was loaded, the gradient function must use
    nothing but `upstream`: TensorFlow traces it with `op=None`.

    Args:
        function: Function of tensors. Operations in a `tf.function` that it calls, in a branch of
            `tf.cond` or in the body of `tf.while_loop` are not overridden, because these are
            graphs of their own.
        overrides: Operation type (`"Sign"`, `"Identity"`, see `tf.Operation.type`) to a function
            `(op, *upstream)` that returns a gradient tensor or `None` for each input of the
            operation, or to the name under which `tf.RegisterGradient` registered one.

    Returns:
        A function of the same tensors.

    Raises:
        LookupError: When differentiated, if no gradient of that name is registered.
        ValueError: When called, if `function` holds no operation of a type that `overrides` names.
        TypeError: When differentiated, if a gradient function returns a Python number.

    Example:

    >>> import tensorflow as tf
    >>> from dann.gradients import override_op_gradients
    >>> negated = override_op_gradients(tf.identity, {"Identity": lambda op, upstream: -upstream})
    >>> inputs = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(inputs)
    ...     outputs = negated(inputs)
    >>> tape.gradient(outputs, inputs).numpy().tolist()
    [-1.0, -1.0]

    Reference:
        - TensorFlow, `tf.Graph.gradient_override_map` and `tf.RegisterGradient`.
    """
    names = {op_type: _name_of(gradient) for op_type, gradient in overrides.items()}

    def overridden(*inputs):
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with graph.gradient_override_map(names):
            outputs = function(*inputs)
        held = {operation.type for operation in graph.get_operations()[before:]}
        if missing := set(names) - held:
            raise ValueError(
                f"The function must hold operations of the types {sorted(names)}, to override "
                f"their gradients, but {sorted(missing)} are not there. Received: {sorted(held)}"
            )
        return outputs

    return as_graph_function(overridden)


def _name_of(gradient):
    if isinstance(gradient, str):
        return gradient
    name = f"dann.{gradient.__qualname__}.{next(_numbers)}"

    @tf.RegisterGradient(name)
    def checked(op, *upstream):
        gradients = gradient(op, *upstream)
        tensors = [value for value in keras.tree.flatten(gradients) if value is not None]
        check_gradients(tensors, tensors, gradient)
        return gradients

    return name


def as_graph_function(function: Callable, autograph: bool = True) -> Callable:
    """Runs `function` as a TensorFlow graph of its own, for every kind of caller.

    `tf.config.run_functions_eagerly(True)` dissolves every `tf.function`, and with it the graph in
    which a gradient is overridden; a concrete function stays a graph.

    Each rank of inputs gets its own function. One function for several ranks would be traced for an
    unknown rank, and a gradient without a rank fails in most optimizers of Keras.

    Args:
        function: Function of tensors; a variable is read, and gets the gradient of its value.
        autograph: Whether Python control flow in it is converted. Defaults to `True`.

    Returns:
        A function of the same tensors.
    """

    @functools.cache
    def function_of(ranks):
        return tf.function(function, reduce_retracing=True, autograph=autograph)

    def call(*inputs):
        tensors = [tf.convert_to_tensor(value) for value in inputs]  # which reads variables
        graph_function = function_of(tuple(tensor.shape.rank for tensor in tensors))
        if tf.config.functions_run_eagerly():
            return graph_function.get_concrete_function(*tensors)(*tensors)
        return graph_function(*tensors)

    return call


def _pass_through(op, upstream):
    return upstream


def _swap_negated(op, upstream, upstream_of_scaled):
    return None, upstream_of_scaled - upstream


def _swap(inputs, scaled):
    return tf.identity_n([inputs, scaled])[0]


_overridden_swap = override_op_gradients(_swap, {"IdentityN": _swap_negated})
_overridden_sign = override_op_gradients(tf.sign, {"Sign": _pass_through})


def reverse_op_gradient(inputs: Any, strength: Any) -> Any:
    """`reverse_gradient` by the overridden gradient of an `IdentityN`.

    `IdentityN(x, strength * x)` returns `x`. Its overridden gradient gives `-upstream` to the
    second input, and the product turns that into `-strength * upstream` for `x`. The gradient
    function reads no input of the operation, so it can be saved.
    """
    return _overridden_swap(inputs, tf.stop_gradient(strength) * inputs)


def sign_op_gradient(inputs: Any) -> Any:
    """`binary_sign` by the overridden gradient of a `Sign`: passed through, after a clip.

    The clip has the gradient of Htanh. Where `tf.sign` gives 0 (or, in TensorFlow's vectorised
    kernel, a subnormal) the added constant makes it +1.
    """
    signs = _overridden_sign(tf.clip_by_value(inputs, -1.0, 1.0))
    return signs + tf.stop_gradient(1.0 - tf.abs(signs))
