"""What goes through the layers of a model, seen and changed."""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

_MISSING = object()


@contextlib.contextmanager
def replaced(changes: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Gives objects other attributes for a while.

    Args:
        changes: An object, the name of one of its attributes, and what it is to be; each attribute
            once.
    """
    before = []
    try:
        for thing, name, value in changes:
            before.append((thing, name, vars(thing).get(name, _MISSING)))
            # Not by Keras' own setter, which refuses new attributes of a built model.
            object.__setattr__(thing, name, value)
        yield
    finally:
        for thing, name, value in reversed(before):
            if value is _MISSING:
                object.__delattr__(thing, name)
            else:
                object.__setattr__(thing, name, value)


def leaves(model: keras.Layer) -> dict[str, keras.Layer]:
    """Returns the layers of a model that hold no others, however deep, each once, by name.

    A layer within one that is no model has that one's name before its own:
    `"binary_dense/input_sign"`. Where a name is taken, a number follows. What is within a recurrent
    layer is left out: it runs in a loop of its own.
    """
    found: dict[str, keras.Layer] = {}
    seen: set[int] = set()

    def visit(layer, prefix):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        inner = list(layer._flatten_layers(include_self=False, recursive=False))
        if inner and not isinstance(layer, keras.layers.RNN):
            within = "" if isinstance(layer, keras.Model) else f"{prefix}{layer.name}/"
            for each in inner:
                visit(each, within)
            return
        name = unique = f"{prefix}{layer.name}"
        count = 0
        while unique in found:
            count += 1
            unique = f"{name}#{count}"
        found[unique] = layer

    visit(model, "")
    return found


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a layer: what went in, with what other arguments, and what came out."""

    name: str
    layer: keras.Layer
    inputs: Any
    args: tuple
    kwargs: dict
    outputs: Any

    def again(self, inputs: Any) -> Any:
        """Calls the layer with other inputs."""
        return self.layer(inputs, *self.args, **self.kwargs)


def record_calls(
    layers: Mapping[str, keras.Layer], run: Callable[[], Any], keep: Callable[[Call], bool]
) -> list[Call]:
    """Runs a model eagerly and returns the calls of its layers, in order.

    Calls while a graph is traced, as in a `call` that is a `tf.function`, have no values and are
    left out.

    Args:
        layers: The layers to watch, by name; see `leaves`.
        run: Runs the model.
        keep: Whether a call is to be returned; what is not is let go of at once.
    """
    calls = []
    asking = False

    def watching(name, layer):
        original = layer.call

        def call(*args, **kwargs):
            nonlocal asking
            outputs = original(*args, **kwargs)
            inputs, args, kwargs = inputs_first(original, args, kwargs)
            if inputs is not None and not asking and not _is_symbolic(inputs):
                one = Call(name, layer, inputs, args, kwargs, outputs)
                asking = True  # `keep` may call the layer again
                try:
                    if keep(one):
                        calls.append(one)
                finally:
                    asking = False
            return outputs

        return call

    with replaced([(layer, "call", watching(name, layer)) for name, layer in layers.items()]):
        run()
    return calls


def inputs_first(call: Callable, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """Returns what goes into a layer's call, also where its name was written, and the rest.

    Args:
        call: The layer's method.
        args: Its positional arguments.
        kwargs: Its other arguments.

    Returns:
        The inputs, `None` where there are none, and the other arguments of both kinds.
    """
    if args:
        return args[0], args[1:], kwargs
    name = next(iter(inspect.signature(call).parameters), "")
    return kwargs.get(name), (), {key: value for key, value in kwargs.items() if key != name}


def run_in_training(model: Any, inputs: Any) -> Any:
    """Runs a Keras model or layer as a training step does, or a plain function."""
    # Keras drops the argument where `call` takes none, and tells the layers within.
    return model(inputs, training=True) if isinstance(model, keras.Layer) else model(inputs)


def is_floating(tensor: Any) -> bool:
    """Whether it is a single tensor of a type that gradients flow through."""
    return keras.ops.is_tensor(tensor) and "float" in keras.backend.standardize_dtype(tensor.dtype)


def _is_symbolic(tensor):
    """Whether a tensor stands for values in a graph that is being traced."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return any(tf.is_symbolic_tensor(part) for part in keras.tree.flatten(tensor))
    if keras.backend.backend() == "jax":
        from jax.core import Tracer  # pyright: ignore[reportMissingImports]

        return any(isinstance(part, Tracer) for part in keras.tree.flatten(tensor))
    return False


def to_numpy(tensor: Any) -> np.ndarray:
    """Returns a tensor as an array in double precision."""
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")), "float64")


def cosine(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """Returns the cosine of the angle between two lists of arrays.

    It is 0 where one of them is all zeros, and not a number where one is not finite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product = sum(float(np.sum(x * y)) for x, y in zip(a, b, strict=True))
        size = norm(a) * norm(b)
    return product / size if size != 0 else 0.0


def norm(arrays: Sequence[np.ndarray]) -> float:
    """Returns the Euclidean norm of all numbers of a list of arrays."""
    return float(np.sqrt(sum(np.sum(np.square(x)) for x in arrays)))
