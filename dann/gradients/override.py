"""Functions with a backward pass that the caller chooses."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.checks import shapes_may_match
from dann.gradients.reads import ReadRecorder, record_reads, reject_reads


def override_gradient(forward: Callable, backward: Callable, name: str | None = None) -> Callable:
    """Makes a function with the value of `forward` and the gradient that `backward` returns.

    - forward: `y = forward(*inputs)`
    - backward: `dL/dinputs = backward(dL/dy, *inputs)`

    Each eager call runs both functions again. A compiled function reads Python values only while it
    is traced, so a value that changes between calls, such as a strength, should be an input or a
    variable.

    On TensorFlow the function is also correct under `tf.autodiff.ForwardAccumulator`, where a bare
    `tf.custom_gradient` silently returns the derivative of `forward`. TensorFlow silently loses
    every overridden gradient if a tape outside `tf.vectorized_map` watches its inputs: open the
    tape inside the mapped function, or use `surrogate_gradient`. In forward mode (`jax.jvp`,
    `jax.jacfwd`), JAX raises an error.

    Args:
        forward: Function of one or more tensors that returns one tensor. It must take trainable
            variables, such as the weights of a layer, as inputs. Otherwise they get no gradient.
        backward: Function `(upstream, *inputs)` that returns one gradient tensor per input, in the
            shape of the input; several gradients as a tuple. Each gradient is cast to the type of
            its input. `upstream` has the shape of the output.
        name: Name of the new function. To save a model that contains the function, register it with
            Keras under this name. Defaults to the joined names of `forward` and `backward`.

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

    def checked_forward(*inputs):
        outputs, names = record_reads(forward, inputs)
        reject_reads(names)
        if keras.tree.is_nested(outputs):
            raise TypeError(
                "Expected `forward` to return one tensor, because `backward` takes one upstream "
                f"gradient. Received: {type(outputs).__name__} of tensors"
            )
        return outputs

    function = _combine_passes(checked_forward, backward)

    def call(*inputs):
        return function(*(ops.convert_to_tensor(value) for value in inputs))

    return NamedFunction(call, name, forward, backward)


def override_pure_gradient(forward: Callable, backward: Callable) -> Callable:
    """Overrides the gradient of a function that depends only on its inputs. For internal use.

    Does not search for variables that `forward` reads. On TensorFlow, all calls share one graph.

    Args:
        forward: Function of one or more tensors that returns one tensor.
        backward: Function `(upstream, *inputs)` that returns one gradient tensor per input.

    Returns:
        A function of the same tensors.
    """
    return _combine_passes(forward, backward, is_pure=True)


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


@keras.saving.register_keras_serializable("dann")
class NamedFunction:
    """Function of positional inputs that Keras saves by the name under which it is registered.

    Args:
        function: Function to call.
        name: Name of the function. Defaults to `None`: the joined names of its parts.
        *parts: Functions that `function` combines.

    Raises:
        TypeError: When saved, if the function itself is not registered under its name, because
            loading would not return it.
        ValueError: If Keras has an activation of this name, which loading would return instead.
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

    def __call__(self, *inputs, **settings):
        if settings:
            raise TypeError(
                f"Expected the inputs of `{self.__name__}` by position. Received: "
                f"{', '.join(settings)} by name. Apply `functools.partial` to both functions first"
            )
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


def reject_symbols(inputs: Sequence[Any]) -> None:
    """Raises a `TypeError` for a `keras.Input`, whose overridden gradient would be lost."""
    if any(map(keras.backend.is_keras_tensor, inputs)):
        raise TypeError(
            "Expected tensors, because a function with an overridden gradient takes no symbolic "
            "inputs. Received: a KerasTensor. In a functional model, use a layer: "
            "`dann.layers.GradientReversal`, `dann.layers.BinarySign`, or a subclass of "
            "`keras.layers.Layer` that calls the function in `call`"
        )


def floating_tensor(inputs: Any) -> Any:
    """Converts `inputs` to a floating-point tensor of the Keras backend.

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


def _combine_passes(forward, backward, is_pure=False):
    """Returns a function of the Keras backend with a forward pass and a backward pass."""

    def gradient(upstream, *inputs):
        gradients = backward(upstream, *inputs)
        if not isinstance(gradients, tuple | list):
            gradients = (gradients,)
        check_gradients(gradients, inputs, backward)
        return tuple(ops.cast(g, x.dtype) for g, x in zip(gradients, inputs, strict=True))

    backend = keras.backend.backend()
    combine = {"tensorflow": _combine_on_tensorflow, "jax": _combine_on_jax}
    overridden = combine.get(backend, _combine_on_torch)(forward, gradient, is_pure)

    def call(*inputs):
        reject_symbols(inputs)
        return overridden(*inputs)

    return call


def _combine_on_tensorflow(forward, gradient, is_pure):
    import tensorflow as tf

    from dann.gradients.graph_function import as_graph_function

    @tf.custom_gradient
    def attach_gradient(value, *inputs):
        return value, lambda upstream: (None, *gradient(upstream, *inputs))

    def overridden(*inputs):
        # Without `stop_gradient`, forward mode would use the derivative of `forward`.
        value = forward(*map(tf.stop_gradient, inputs))
        return attach_gradient(tf.stop_gradient(value), *inputs)

    def call(*inputs):
        inputs = [tf.convert_to_tensor(value) for value in inputs]  # reads variables
        if tf.executing_eagerly():
            return overridden(*inputs)
        # Not cached, so that each trace of the caller reads the current Python values.
        return tf.function(overridden, autograph=False)(*inputs)

    return as_graph_function(overridden, autograph=False) if is_pure else call


def _combine_on_torch(forward, gradient, is_pure):
    @ops.custom_gradient
    def overridden(*inputs):
        return forward(*inputs), lambda *_, upstream: gradient(upstream, *inputs)

    return overridden


def _combine_on_jax(forward, gradient, is_pure):
    """Returns a function like `jax.custom_gradient`, but with correct second derivatives.

    On JAX, `keras.ops.custom_gradient` is `jax.custom_gradient`. If its gradient is differentiated
    again, JAX uses the derivative of `forward`. Here the forward rule calls the function with the
    overridden gradient, so every order of derivatives uses the override, as on TensorFlow.
    """
    import jax  # pyright: ignore[reportMissingImports]

    @jax.custom_vjp
    def overridden(state, *inputs):
        return forward(*inputs)

    def run_forward(state, *inputs):
        # `jax.grad` of a Python number passes a number without a shape.
        return overridden(state, *inputs), (state, [jax.numpy.asarray(x) for x in inputs])

    def run_backward(residuals, upstream):
        state, inputs = residuals
        if not state:
            return None, *gradient(upstream, *inputs)
        with ReadRecorder() as scope:
            scope.state_mapping.update(state)
            gradients = gradient(upstream, *inputs)
        if scope.updates:
            raise ValueError(
                "Expected `backward` to assign no variables on JAX, because assignments in a "
                f"backward pass are lost. Received: an assignment of {scope.updates[0][0].path!r}. "
                "Draw random numbers before the call and pass them as an input"
            )
        return None, *gradients  # no gradient of the state

    overridden.defvjp(run_forward, run_backward)
    # A backward pass runs after `fit` has left the scope that contains the values of variables.
    return lambda *inputs: overridden({} if is_pure else _read_state(), *inputs)


def _read_state():
    """Returns the values of Keras variables in the current scopes, by the ids of the variables."""
    with keras.StatelessScope() as scope:
        state, outer = {}, scope.original_scope
    # From the innermost to the outermost scope: values of inner scopes take precedence.
    while outer:
        state, outer = {**outer.state_mapping, **state}, outer.original_scope
    return {key: ops.stop_gradient(value) for key, value in state.items()}
