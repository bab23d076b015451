"""Way 1: a backward pass given by the caller instead of the derivative."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from dann.checks import shapes_may_match


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
        name: Name of the new function, under which it must be registered with Keras to be saved in
            a file. Defaults to the names of `forward` and `backward`.

    Returns:
        A function of the same tensors and variables, which are given by position.

    Raises:
        TypeError: If `forward` returns several tensors; when differentiated, if `backward` returns
            what is no tensor.
        ValueError: When called, if `forward` reads a trainable variable; when differentiated, if
            `backward` returns the wrong number of gradients, or one of another shape.

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
        check_gradients(gradients, inputs, backward)
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

    return NamedFunction(call, name, forward, backward)


def check_gradients(gradients: Any, inputs: Sequence[Any], function: Callable) -> None:
    """Raises an error unless the gradients of `function` are tensors in the inputs' shapes."""
    name = getattr(function, "__name__", repr(function))
    if len(gradients) != len(inputs):
        raise ValueError(
            f"Gradient function `{name}` must return one gradient for each of the {len(inputs)} "
            f"inputs. Received: {len(gradients)} gradients"
        )
    for gradient, one in zip(gradients, inputs, strict=True):
        if not ops.is_tensor(gradient):
            raise TypeError(
                f"Gradient function `{name}` must return a tensor for each input, for no gradient "
                "`keras.ops.zeros_like(input)`. "
                f"Received: {type(gradient).__name__}"
            )
        if not shapes_may_match(gradient.shape, one.shape):
            raise ValueError(
                f"Gradient function `{name}` must return gradients in the shapes of the inputs. "
                f"Received: {tuple(gradient.shape)} for an input {tuple(one.shape)}"
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


@keras.saving.register_keras_serializable("dann")
class NamedFunction:
    """A function, given its inputs by position, that Keras saves by the name it registers.

    Args:
        function: The function.
        name: Its name. Defaults to `None`: those of its parts.
        parts: The functions that it is made of.

    Raises:
        TypeError: When called with inputs by name; when saved, if it is not the function that is
            registered under its name, because a file would load another one.
        ValueError: If the name is that of an activation of Keras, which a file would load.
    """

    def __init__(self, function: Callable, name: str | None, *parts: Callable):
        if name and hasattr(keras.activations, name):
            raise ValueError(
                "`name` must not be that of an activation of Keras, which a file would load. "
                f"Received: {name!r}"
            )
        names = [getattr(part, "__name__", type(part).__name__) for part in parts]
        joined = "<lambda>" if "<lambda>" in names else "_with_".join(names)
        self.function, self.__name__ = function, name or joined

    def __call__(self, *inputs, **by_name):
        if by_name:
            raise TypeError(
                f"Give the inputs of `{self.__name__}` by position. "
                f"Received by name: {', '.join(by_name)}"
            )
        return self.function(*inputs)

    def get_config(self):
        name = keras.saving.get_registered_name(self)
        if keras.saving.get_registered_object(name) is not self:
            raise TypeError(
                "To save an overridden function, give it a `name=` of its own and register it: "
                "`keras.saving.register_keras_serializable()(function)`. "
                f"Received: {name}, which is not registered or is the name of another function"
            )
        return {"name": name}

    @classmethod
    def from_config(cls, config):
        """Returns the function that is registered under the name."""
        found = keras.saving.get_registered_object(config["name"])
        if found is None:
            raise TypeError(f"Register the function {config['name']!r} before it is loaded")
        return found


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
