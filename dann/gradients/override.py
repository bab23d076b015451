"""Functions whose backward pass is replaced by one that the caller chooses."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from dann.checks import shapes_may_match


def override_gradient(forward: Callable, backward: Callable, name: str | None = None) -> Callable:
    """Makes a function with the value of `forward` and the gradient that `backward` returns.

    - forward: `y = forward(*inputs)`
    - backward: `dL/dinputs = backward(dL/dy, *inputs)`

    A value that changes between calls, such as a strength, should be an input: each call then reads
    it, and nothing is traced again.

    On TensorFlow the function runs as a `tf.function`. It is therefore also correct under
    `tf.autodiff.ForwardAccumulator`, where a bare `tf.custom_gradient` silently returns the
    derivative of `forward`. The graphs of earlier traces are freed. TensorFlow silently loses
    every overridden gradient if a tape outside `tf.vectorized_map` watches its inputs: open the
    tape inside the mapped function, or use `surrogate_gradient`.

    On JAX the function has no forward mode (`jax.jvp`, `jax.jacfwd`): JAX raises an error there.

    Args:
        forward: Function of one or more tensors that returns one tensor. It must take trainable
            variables, such as the weights of a layer, as inputs, or they would get no gradient.
        backward: Function `(upstream, *inputs)` that returns one gradient tensor per input, in the
            shape of the input; several gradients as a tuple. Gradients are cast to the type of the
            input. `upstream` has the shape of the output.
        name: Name of the new function, under which it must be registered with Keras to be saved in
            a file. Defaults to the joined names of `forward` and `backward`.

    Returns:
        A function of the same tensors and variables, which it takes by position.

    Raises:
        TypeError: If `forward` returns several tensors; when differentiated, if `backward` returns
            anything but tensors.
        ValueError: When called, if `forward` reads a trainable variable; when differentiated, if
            `backward` returns the wrong number of gradients or a gradient of the wrong shape.

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
          layer whose backward pass is not its derivative.
    """

    def gradient(upstream, *inputs):
        gradients = backward(upstream, *inputs)
        if not isinstance(gradients, tuple | list):
            gradients = (gradients,)
        check_gradients(gradients, inputs, backward)
        return tuple(ops.cast(g, x.dtype) for g, x in zip(gradients, inputs, strict=True))

    def checked_forward(*inputs):
        with record_reads() as variables:
            try:
                return forward(*inputs)
            finally:  # replaces an error of `forward` that the variable caused
                reject_reads(variables)

    overridden = _combine_passes(checked_forward, gradient)

    def call(*inputs):
        outputs = overridden(*(ops.convert_to_tensor(value) for value in inputs))
        if keras.tree.is_nested(outputs):
            raise TypeError(
                "Expected `forward` to return one tensor, because `backward` takes one upstream "
                f"gradient. Received: {type(outputs).__name__} of tensors"
            )
        return outputs

    return NamedFunction(call, name, forward, backward)


def check_gradients(gradients: Any, inputs: Sequence[Any], function: Callable) -> None:
    """Raises an error unless the gradients of `function` are tensors in the shapes of `inputs`."""
    name = getattr(function, "__name__", repr(function))
    if len(gradients) != len(inputs):
        raise ValueError(
            f"Expected gradient function `{name}` to return one gradient for each of the "
            f"{len(inputs)} inputs. Received: {len(gradients)} gradients"
        )
    for gradient, tensor in zip(gradients, inputs, strict=True):
        if not ops.is_tensor(gradient):
            raise TypeError(
                f"Expected gradient function `{name}` to return a tensor for each input. "
                f"Received: {type(gradient).__name__}. Return `keras.ops.zeros_like(input)` for an "
                "input without a gradient"
            )
        if not shapes_may_match(gradient.shape, tensor.shape):
            raise ValueError(
                f"Expected gradient function `{name}` to return gradients in the shapes of the "
                f"inputs. Received: {tuple(gradient.shape)} for an input {tuple(tensor.shape)}"
            )


class ReadRecorder(keras.StatelessScope):
    """Scope that records which trainable variables are read and defers all assignments.

    A function that reads a trainable variable, instead of taking it as an input, would silently
    give it no gradient.
    """

    def __init__(self):
        super().__init__()
        # By id, because `==` compares the values of variables.
        self.variables: dict[int, keras.Variable] = {}
        self.updates: list[tuple[keras.Variable, Any]] = []

    def get_current_value(self, variable):
        if variable.trainable:
            self.variables[id(variable)] = variable
        value, outer = super().get_current_value(variable), self.original_scope
        return outer.get_current_value(variable) if value is None and outer else value

    def add_update(self, update):
        super().add_update(update)
        self.updates.append(update)


@contextlib.contextmanager
def record_reads() -> Iterator[dict[int, keras.Variable]]:
    """Yields a dict that collects the trainable variables read in the block, by their ids."""
    with ReadRecorder() as scope:
        yield scope.variables
    for variable, value in scope.updates:  # such as the state of a random generator
        variable.assign(value)


def reject_reads(variables: Mapping[int, keras.Variable]) -> None:
    """Raises a `ValueError` if there are variables, because they would get no gradient."""
    if variables:
        raise ValueError(
            "Expected `forward` to take trainable variables as inputs, because `backward` returns "
            "gradients of inputs only. "
            f"Received: a function that reads {[v.path for v in variables.values()]}. Write "
            "`lambda x, w: ...` and call it as `function(x, self.w)`"
        )


@keras.saving.register_keras_serializable("dann")
class NamedFunction:
    """Function of positional inputs that Keras saves by the name under which it is registered.

    Args:
        function: Function to call.
        name: Name of the function. Defaults to `None`: the joined names of its parts.
        *parts: Functions that it is made of.

    Raises:
        TypeError: When saved, if another function or none is registered under its name, because
            loading would not return this function.
        ValueError: If Keras has an activation of this name, which loading would return.
    """

    def __init__(self, function: Callable, name: str | None, *parts: Callable):
        if name and hasattr(keras.activations, name):
            raise ValueError(
                "Expected `name` to differ from the activations of Keras, which loading would "
                f"return instead. Received: name={name!r}"
            )
        self.function = function
        self.__name__ = name or "_with_".join(
            getattr(part, "__name__", type(part).__name__) for part in parts
        )

    def __call__(self, *inputs):
        return self.function(*inputs)

    def get_config(self):
        name = keras.saving.get_registered_name(self)
        if keras.saving.get_registered_object(name) is not self:
            raise TypeError(
                "Expected an overridden function that is registered under a unique name, to be "
                f"saved. Received: {name}, which is not registered or names another function. Pass "
                "`name=` and call `keras.saving.register_keras_serializable()(function)`"
            )
        return {"name": name}

    @classmethod
    def from_config(cls, config):
        """Returns the function that is registered under the name."""
        function = keras.saving.get_registered_object(config["name"])
        if function is None:
            raise TypeError(
                "Expected a file whose functions are registered. "
                f"Received: the unregistered name {config['name']!r}. Register it before loading"
            )
        return function


def floating_tensor(inputs: Any) -> Any:
    """Returns `inputs` as a tensor of the Keras backend after a check of its data type.

    Raises:
        TypeError: If the data type is not floating, because integers silently get no gradient.
    """
    tensor: Any = ops.convert_to_tensor(inputs)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if "float" not in dtype:
        raise TypeError(
            "Expected a floating-point tensor, because no gradient flows through other types. "
            f"Received: dtype={dtype}. Cast integers to float32, pass token ids through an "
            "embedding, and split complex numbers into real and imaginary parts"
        )
    # TensorFlow counts a variable among the tensors; only a cast reads its value.
    return ops.cast(tensor, dtype)


def _combine_passes(forward: Callable, gradient: Callable) -> Callable:
    """Returns a function of the Keras backend with a forward pass and a backward pass."""
    backend = keras.backend.backend()
    if backend == "jax":
        return _combine_passes_on_jax(forward, gradient)
    function = _combine_passes_in_keras(forward, gradient)
    if backend == "tensorflow":
        from dann.gradients.graph_function import as_graph_function

        return as_graph_function(function, autograph=False)
    return function


def _combine_passes_on_jax(forward, gradient):
    """Returns a function as `jax.custom_gradient` does, with correct second derivatives.

    `keras.ops.custom_gradient` is `jax.custom_gradient` on JAX. When its gradient is differentiated
    again, it uses the derivative of `forward`. Here the forward rule calls the function with the
    overridden gradient, as the tapes of TensorFlow do.
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


def _combine_passes_in_keras(forward, gradient):
    @ops.custom_gradient
    def overridden(*inputs):
        # TensorFlow passes the upstream gradient by position, PyTorch by name.
        def pull_back(*args, upstream=None):
            gradients = gradient(args[0] if upstream is None else upstream, *inputs)
            return gradients if len(gradients) > 1 else gradients[0]

        return forward(*inputs), pull_back

    return overridden
