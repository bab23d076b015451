"""Way 1 for TensorFlow graphs: the gradient of an operation, overridden by its type."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "Only TensorFlow graphs can override the gradient of operations. On the "
        f"{keras.backend.backend()!r} backend use `way='override'` or `way='stop_gradient'`."
    )

import tensorflow as tf

# TensorFlow has no public look-up by name; a registered gradient cannot be checked without one.
from tensorflow.python.framework.ops import gradient_registry

from dann.gradients.override import check_gradients
from dann.gradients.tensorflow_graph import as_graph_function, refuse_lost_gradient

_registered: dict[str, Callable] = {}


def register_gradient(name: str) -> Callable:
    """Registers a gradient function by name, as `tf.RegisterGradient` does, but more than once.

    A notebook cell that runs twice may define the same function again. Another function under a
    registered name is an error.

    Args:
        name: Name for `override_op_gradients` and for `tf.Graph.gradient_override_map`.

    Returns:
        A decorator for a function `(op, *upstream)` that returns one gradient tensor, or `None`,
        for each input of the operation.

    Raises:
        ValueError: If the name belongs to another function.

    Example:

    >>> import tensorflow as tf
    >>> from dann.gradients import register_gradient
    >>> @register_gradient("HalfGradient")
    ... def half(op, upstream):
    ...     return upstream / 2.0
    """

    def decorate(function: Callable) -> Callable:
        taken = _registered.get(name) or _lookup(name)
        if taken is None:
            tf.RegisterGradient(name)(_checked(function))
            _registered[name] = function
        elif not _same_function(taken, function):
            raise ValueError(
                f"A gradient named {name!r} is registered already, for another function: "
                f"{_describe(taken)}. Choose another name. Received: {_describe(function)}"
            )
        return function

    return decorate


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
        overrides: Operation type (`"Sign"`, `"Identity"`, see `tf.Operation.type`) to the name of
            a registered gradient, or to a function `(op, *upstream)` that returns a gradient
            tensor or `None` for each input of the operation.

    Returns:
        A function of the same tensors.

    Raises:
        LookupError: If no gradient of that name is registered.
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
    names = {op_type: _gradient_name(gradient) for op_type, gradient in overrides.items()}

    def overridden(*inputs):
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with graph.gradient_override_map(names):
            outputs = function(*inputs)
        held = {operation.type for operation in graph.get_operations()[before:]}
        for op_type in names:
            if op_type not in held:
                raise ValueError(
                    f"The function holds no operation of type {op_type!r}, so its gradient cannot "
                    f"be overridden. Received a function with: {sorted(held)}"
                )
        return outputs

    return as_graph_function(overridden)


def _gradient_name(gradient: str | Callable) -> str:
    if callable(gradient):
        name = next((name for name, known in _registered.items() if known is gradient), None)
        if name is None:
            name = f"dann.{_describe(gradient)}.{len(_registered)}"
            register_gradient(name)(gradient)
        return name
    function = _lookup(gradient)
    if function is None:
        raise LookupError(
            f"No gradient named {gradient!r} is registered. Register it with "
            f"`@dann.gradients.register_gradient({gradient!r})`."
        )
    if gradient in _registered:
        return gradient
    # Registered by `tf.RegisterGradient`: the same function under a checked name.
    return _gradient_name(function)


def _lookup(name: str) -> Callable | None:
    try:
        return gradient_registry.lookup(name)
    except LookupError:
        return None


def _checked(function: Callable) -> Callable:
    @functools.wraps(function)
    def gradient(op, *upstream):
        gradients = function(op, *upstream)
        flat = gradients if isinstance(gradients, tuple | list) else [gradients]
        tensors = [value for value in flat if value is not None]
        check_gradients(tensors, len(tensors), function)
        return gradients

    return gradient


def _same_function(one: Callable, other: Callable) -> bool:
    """Whether two functions are the same, or come from two runs of one definition."""
    if one is other:
        return True
    codes = [getattr(function, "__code__", None) for function in (one, other)]
    if None in codes or _fingerprint(codes[0]) != _fingerprint(codes[1]):
        return False
    return _bound_values(one) == _bound_values(other)


def _fingerprint(code: Any) -> tuple:
    """The instructions, names and constants of a code object, without its place in a file."""
    constants = [_fingerprint(c) if hasattr(c, "co_code") else c for c in code.co_consts]
    return code.co_code, code.co_names, constants


def _bound_values(function: Callable) -> list:
    """Instance, defaults and closure; only plain values are compared by value."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    values = [getattr(function, "__self__", None), *defaults, *cells]
    return [v if isinstance(v, bool | int | float | str | None) else id(v) for v in values]


def _describe(function: Callable) -> str:
    module = getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__qualname__', repr(function))}"


@register_gradient("dann.PassThrough")
def _pass_through(op, upstream):
    return upstream


@register_gradient("dann.SwapNegated")
def _swap_negated(op, upstream, upstream_of_scaled):
    return None, upstream_of_scaled - upstream


def _swap(inputs, scaled):
    return tf.identity_n([refuse_lost_gradient(inputs), scaled])[0]


_overridden_swap = override_op_gradients(_swap, {"IdentityN": "dann.SwapNegated"})
_overridden_sign = override_op_gradients(tf.sign, {"Sign": "dann.PassThrough"})


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
