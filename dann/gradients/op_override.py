"""Overrides of the gradients of TensorFlow operations by their type."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "Expected the Keras backend 'tensorflow' for `implementation='op_override'`. "
        f"Received: {keras.backend.backend()!r}. Use 'override' or 'stop_gradient'"
    )

import tensorflow as tf

from dann.gradients.graph_function import as_graph_function
from dann.gradients.override import check_gradients, reject_symbols

_numbers = itertools.count()


def override_op_gradients(function: Callable, overrides: Mapping[str, str | Callable]) -> Callable:
    """Overrides the gradients of all operations of given types inside a function.

    In TensorFlow 1 this was `with graph.gradient_override_map({"Sign": "QuantizeGrad"}):`.
    TensorFlow 2 silently ignores that context manager in eager mode and whenever the gradient tape
    is in the same function as the operation, as in Keras' `fit`. Here `function` becomes a separate
    graph, so the override works in eager mode, in `tf.function` with the tape inside or outside,
    under XLA, in `fit`, and under `tf.config.run_functions_eagerly(True)`.

    TensorFlow looks for overridden gradients only in graphs. Python values that `function` or a
    gradient reads are therefore constant after the first call for each rank and dtype, in eager
    mode too. Store values that change in a `tf.Variable`.

    If a `SavedModel` is differentiated after loading, its gradient functions must use only
    `upstream`, because TensorFlow traces them with `op=None`.

    Args:
        function: Function of tensors. Operations in a `tf.function` that it calls, in a branch of
            `tf.cond` or in the body of `tf.while_loop` are not overridden, because each of these is
            a separate graph.
        overrides: Maps an operation type (`"Sign"`, `"Identity"`, see `tf.Operation.type`) to a
            function `(op, *upstream)` that returns a gradient tensor or `None` for each input of
            the operation, or to the name of a gradient registered by `tf.RegisterGradient`.

    Returns:
        A function of the same tensors.

    Raises:
        LookupError: If no gradient is registered under a name in `overrides`.
        ValueError: When called, if `function` has no operation of a type in `overrides`.
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
    names = {op_type: _register(gradient) for op_type, gradient in overrides.items()}
    messages = []

    def overridden(*inputs):
        graph = tf.compat.v1.get_default_graph()
        num_before = len(graph.get_operations())
        with graph.gradient_override_map(names):
            outputs = function(*inputs)
        types = {operation.type for operation in graph.get_operations()[num_before:]}
        if missing := set(names) - types:
            messages.append(
                f"Expected a function with operations of the types {sorted(names)}, whose "
                f"gradients are overridden. Received: {sorted(types)}, without {sorted(missing)}"
            )
        return outputs

    graph_function = as_graph_function(overridden)

    def call(*inputs, **kwargs):
        reject_symbols(inputs)
        lists = [value for value in inputs if isinstance(value, list | tuple)]
        is_nested = any(tf.is_tensor(value) for values in lists for value in values)
        if kwargs or is_nested or any(isinstance(value, dict) for value in inputs):
            raise TypeError(
                "Expected tensors as positional arguments. Received: a list, a dict or a keyword "
                "argument. Wrap the call, as in `lambda a, b: model([a, b], training=True)`"
            )
        outputs = graph_function(*inputs)
        if messages:  # raised here, because AutoGraph rewrites errors in a graph
            raise ValueError(messages[0])
        return outputs

    return call


def _register(gradient):
    """Returns the name of a gradient in TensorFlow's registry; registers a function."""
    if isinstance(gradient, str):
        if not _is_registered(gradient):
            raise LookupError(
                "Expected the name of a gradient that `tf.RegisterGradient` registered. "
                f"Received: {gradient!r}"
            )
        return gradient
    name = f"dann.{gradient.__qualname__}.{next(_numbers)}"

    @tf.RegisterGradient(name)
    def checked(op, *upstream):
        gradients = gradient(op, *upstream)
        tensors = [value for value in keras.tree.flatten(gradients) if value is not None]
        check_gradients(tensors, tensors, gradient)
        return gradients

    return name


def _is_registered(name):
    """Returns whether a gradient of this name is registered, although the registry is private."""
    with tf.Graph().as_default() as graph:
        inputs = tf.constant(0.0)
        with graph.gradient_override_map({"Identity": name}):
            outputs = tf.identity(inputs)
        try:
            tf.gradients(outputs, inputs)
        except LookupError as error:
            return "No gradient defined" not in str(error)
        except Exception:  # a gradient for operations with other inputs
            return True
    return True


def _pass_through(op, upstream):
    return upstream


def _swap_negated(op, upstream, scaled_upstream):
    return None, scaled_upstream - upstream


def _swap(inputs, scaled):
    return tf.identity_n([inputs, scaled])[0]


_overridden_swap = override_op_gradients(_swap, {"IdentityN": _swap_negated})
_overridden_sign = override_op_gradients(tf.sign, {"Sign": _pass_through})


def reverse_op_gradient(inputs: Any, strength: Any) -> Any:
    """Computes `reverse_gradient` by the overridden gradient of an `IdentityN` operation.

    The function returns the first output of `IdentityN(x, strength * x)`. The overridden gradient
    passes `-upstream` to the second input, and the product turns it into `-strength * upstream`
    for `x`. The gradient function reads no input of the operation, so it can be saved.
    """
    return _overridden_swap(inputs, tf.stop_gradient(strength) * inputs)


def sign_op_gradient(inputs: Any) -> Any:
    """Computes `binary_sign` by the overridden gradient of a `Sign` operation after a clip.

    The gradient of `Sign` is passed through, and the clip has the gradient of Htanh.
    """
    signs = _overridden_sign(tf.clip_by_value(inputs, -1.0, 1.0))
    # `tf.sign` is 0 at 0 and, in its vectorized kernel, at subnormal numbers. Both become +1.
    return signs + tf.stop_gradient(1.0 - tf.abs(signs))
