"""Way 1: a backward pass given by the caller instead of the derivative."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops


def override_gradient(forward: Callable, backward: Callable, name: str | None = None) -> Callable:
    """Makes a function that computes `forward` and differentiates as `backward` says.

    - forward: `y = forward(*inputs)`
    - backward: `dL/dinputs = backward(dL/dy, *inputs)`

    Pass a value that changes from call to call, such as a strength, as an input: it is then read at
    each call, and nothing is traced again.

    On TensorFlow the function runs as a `tf.function`. So it is right under
    `tf.autodiff.ForwardAccumulator` too, where a bare `tf.custom_gradient` silently gives the
    derivative of `forward`, and the graphs of earlier traces are freed. TensorFlow loses every
    overridden gradient, silently, if a tape outside `tf.vectorized_map` watches its inputs: open
    the tape inside the mapped function, or use `surrogate_gradient`.

    On JAX the function has no forward mode (`jax.jvp`, `jax.jacfwd`): JAX raises an error there.

    Args:
        forward: Function of one or more tensors that returns one tensor. Trainable variables, such
            as a layer's weights, must be inputs of it, or they would get no gradient.
        backward: Function `(upstream, *inputs)` that returns one gradient tensor for each input
            (alone, or in a tuple), in its shape; it is cast to the input's type. `upstream` has the
            shape of the output.
        name: Name of the new function, by which Keras registers it for files. Defaults to the names
            of `forward` and `backward`; with a lambda among them it cannot be saved.

    Returns:
        A function of the same tensors and variables, which are given by position.

    Raises:
        TypeError: If `forward` returns several tensors; when differentiated, if `backward` returns
            what is no tensor.
        ValueError: When called, if `forward` reads a trainable variable; when differentiated, if
            `backward` returns the wrong number of gradients.

    Example:

    >>> import keras
    >>> from dann.gradients import override_gradient
    >>> clip_backward = override_gradient(
    ...     lambda inputs: inputs,
    ...     lambda upstream, inputs: keras.ops.clip(upstream, -1.0, 1.0),
    ... )
    >>> [float(value) for value in clip_backward(keras.ops.array([3.0, -4.0]))]
    [3.0, -4.0]

    Reference:
        - [Ganin and Lempitsky, 2015](https://arxiv.org/abs/1409.7495), equations 8 and 9, for a
          backward pass that is chosen freely.
    """

    def gradient(upstream, *inputs):
        gradients = backward(upstream, *inputs)
        if not isinstance(gradients, tuple | list):
            gradients = (gradients,)
        check_gradients(gradients, len(inputs), backward)
        return tuple(ops.cast(one, x.dtype) for one, x in zip(gradients, inputs, strict=True))

    def checked(*inputs):
        with reads() as read:
            try:
                return forward(*inputs)
            finally:  # also in the place of an error about the variable
                refuse_reads(read)

    overridden = _backend_function()(checked, gradient)

    def call(*inputs):
        outputs = overridden(*(ops.convert_to_tensor(value) for value in inputs))
        if keras.tree.is_nested(outputs):
            raise TypeError(
                "Argument `forward` must return one tensor, because `backward` takes one upstream "
                f"gradient. Received: {type(outputs).__name__} of tensors"
            )
        return outputs

    return named(call, name, forward, backward)


def check_gradients(gradients: Any, count: int, function: Callable) -> None:
    """Raises an error unless the `gradients` that `function` returned are `count` tensors."""
    name = getattr(function, "__name__", repr(function))
    if len(gradients) != count:
        raise ValueError(
            f"Gradient function `{name}` must return one gradient for each of the {count} inputs. "
            f"Received: {len(gradients)} gradients"
        )
    for gradient in gradients:
        if not ops.is_tensor(gradient):
            raise TypeError(
                f"Gradient function `{name}` must return a tensor for each input, for no gradient "
                "`keras.ops.zeros_like(input)`. "
                f"Received: {gradient!r} of type {type(gradient).__name__}"
            )


class Reads(keras.StatelessScope):
    """Collects the trainable variables that are read; assignments do not leave it."""

    def __init__(self):
        super().__init__()
        self.read: dict[int, keras.Variable] = {}
        self.updates: list[Any] = []

    def get_current_value(self, variable):
        if variable.trainable:
            self.read[id(variable)] = variable
        value, outer = super().get_current_value(variable), self.original_scope
        return outer.get_current_value(variable) if value is None and outer else value

    def add_update(self, update):
        super().add_update(update)
        self.updates.append(update)


@contextlib.contextmanager
def reads() -> Iterator[dict[int, keras.Variable]]:
    """Collects the trainable variables that are read within, by their ids."""
    with Reads() as scope:
        yield scope.read
    for variable, value in scope.updates:  # such as the state of a random generator
        variable.assign(value)


def refuse_reads(variables: dict[int, keras.Variable]) -> None:
    """Raises a `ValueError` if there are variables, which would get no gradient in silence."""
    if variables:
        raise ValueError(
            "Argument `forward` must take trainable variables as inputs, because `backward` gives "
            "no gradient to others: `lambda x, w: ...`, called as `function(x, self.w)`. "
            f"Received: a function that reads {[one.path for one in variables.values()]}"
        )


class _Unnamed:
    """A function of a lambda, which could not be told from others of its name in a file."""

    __name__ = "<lambda>"

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, *inputs, **by_name):
        return self.function(*inputs, **by_name)

    def get_config(self):
        raise TypeError(
            "To save an overridden function that has a lambda among its parts, give it a `name=` "
            "and register it with `keras.saving.register_keras_serializable`. Received: no name"
        )


def named(function: Callable, name: str | None, *parts: Callable) -> Callable:
    """Returns `function`, given its inputs by position, under a name, by default of its parts.

    Keras registers and saves a function by its name: two with one name would swap places in a file.
    One with a lambda among its parts has no name and is not saved.
    A function whose registered name another took, as one of a factory has it, warns when called.
    """
    names = [getattr(part, "__name__", type(part).__name__) for part in parts]
    joined = "<lambda>" if "<lambda>" in names else "_with_".join(names)

    def by_position(*inputs, **by_name):
        if by_name:
            raise TypeError(
                f"Give the inputs of `{by_position.__name__}` by position. "
                f"Received by name: {', '.join(by_name)}"
            )
        registered = keras.saving.get_registered_name(by_position)
        if keras.saving.get_registered_object(registered) not in (None, by_position):
            warnings.warn(
                f"Two functions are registered as {registered!r}, and a file would load the last: "
                "give each its own `name=`",
                stacklevel=2,
            )
        return function(*inputs)

    if name and hasattr(keras.activations, name):
        raise ValueError(
            "`name` must not be that of an activation of Keras, which a file would load. "
            f"Received: {name!r}"
        )
    by_position.__name__ = name or joined
    return _Unnamed(by_position) if by_position.__name__ == "<lambda>" else by_position


def floating_tensor(inputs: Any) -> Any:
    """Returns `inputs` as a tensor of the running backend, if a gradient can flow through it.

    Raises:
        TypeError: If the data type is not a floating one: integers would silently get no gradient.
    """
    tensor: Any = ops.convert_to_tensor(inputs)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if "float" not in dtype:
        raise TypeError(
            "Expected a floating-point tensor, because no gradient flows through other types: cast "
            "numbers to float32; token ids pass an embedding first, complex numbers are split into "
            f"real and imaginary parts. Received: dtype={dtype}"
        )
    # A variable, which TensorFlow counts among tensors, is read only by a cast.
    return ops.cast(tensor, dtype)


def _backend_function() -> Callable:
    """How the running backend joins a `forward` and a `gradient`."""
    backend = keras.backend.backend()
    functions = {"jax": _as_jax_function, "tensorflow": _as_tensorflow_function}
    return functions.get(backend, _as_keras_function)


def _as_jax_function(forward: Callable, gradient: Callable) -> Callable:
    """Like `jax.custom_gradient`, but right for derivatives of derivatives too.

    `jax.custom_gradient`, which `keras.ops.custom_gradient` is there, differentiates `forward`
    itself when a gradient is differentiated once more. Here the forward rule calls the function
    with the overridden gradient, as TensorFlow's tapes do.
    """
    import jax  # pyright: ignore[reportMissingImports]

    @jax.custom_vjp
    def overridden(*inputs):
        return forward(*inputs)

    def run_forward(*inputs):
        return overridden(*inputs), inputs

    def run_backward(inputs, upstream):
        return gradient(upstream, *inputs)

    overridden.defvjp(run_forward, run_backward)
    return overridden


def _as_tensorflow_function(forward: Callable, gradient: Callable) -> Callable:
    from dann.gradients.op_override import as_graph_function

    return as_graph_function(_as_keras_function(forward, gradient), autograph=False)


def _as_keras_function(forward: Callable, gradient: Callable) -> Callable:
    @ops.custom_gradient
    def overridden(*inputs):
        def pull_back(*args, upstream=None):
            gradients = gradient(args[0] if upstream is None else upstream, *inputs)
            return gradients if len(gradients) > 1 else gradients[0]

        return forward(*inputs), pull_back

    return overridden
