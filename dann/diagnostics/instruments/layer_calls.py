"""Calls of layers, seen and changed while a model runs, without touching the model.

It reaches what Keras has no hook for: the layers of somebody else's model, and those within a
network, such as a sign in a backbone. The reversal of our own models needs no watch; see
`AdversarialModel.from_features`.

Keras runs every layer through `keras.Operation.__call__`, with inputs that are cast already. While
a watch is on, this method asks the watch of its own thread first; threads without a watch run as
before. No attribute of a model or a layer is set. `keras.models.clone_model` with a
`call_function` would see only the layers of functional models, not those inside other layers or
subclassed models, and only as symbols; and it would add a node to every layer of the user's model.
"""

import contextlib
import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

_thread = threading.local()
_lock = threading.Lock()
_watches = 0  # how many are on, in all threads
_call: Any = None  # `Operation.__call__` before the first watch


@contextlib.contextmanager
def around_layers(around: Callable[[keras.Layer, Callable, tuple, dict], Any]) -> Iterator[None]:
    """Runs this thread's calls of layers through `around(layer, call, args, kwargs)`.

    `around` returns the layer's outputs; `call(*args, **kwargs)` runs the layer. An inner watch
    replaces an outer one.
    """
    outer = getattr(_thread, "around", None)
    _count(1)
    _thread.around = around
    try:
        yield
    finally:
        _thread.around = outer
        _count(-1)


def _count(change):
    global _call, _watches
    with _lock:
        if not _watches:
            _call = keras.Operation.__call__  # perhaps another library's
        _watches += change
        now: Any = _watched_call if _watches else _call
        keras.Operation.__call__ = now


def _watched_call(operation, *args, **kwargs):
    around = getattr(_thread, "around", None)
    if around is None or not isinstance(operation, keras.Layer):
        return _call(operation, *args, **kwargs)
    return around(operation, functools.partial(_call, operation), args, kwargs)


def leaves(model: keras.Layer) -> dict[str, keras.Layer]:
    """Returns the layers of a model that hold no other layers, however deep, once each, by name.

    A layer within another layer, not a model, has that one's name before its own:
    `"binary_dense/input_sign"`. A repeated name gets a number. A recurrent layer counts as a leaf,
    because it runs its cell in its own loop.
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
    """One call of a layer: its inputs, its other arguments, and its outputs."""

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
        keep: Whether to return a call. The tensors of all others are freed at once.
    """
    calls: list[Call] = []
    names = {id(layer): name for name, layer in layers.items()}

    def around(layer, call, args, kwargs):
        outputs = call(*args, **kwargs)
        if id(layer) in names:
            inputs, args, kwargs = inputs_first(layer, args, kwargs)
            if inputs is not None and not _is_symbolic(inputs):
                one = Call(names[id(layer)], layer, inputs, args, kwargs, outputs)
                if keep(one):
                    calls.append(one)
        return outputs

    with around_layers(around):
        run()
    return calls


def inputs_first(layer: keras.Layer, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """Returns the inputs of a layer's call, also if given by name, and its other arguments.

    The inputs are `None` if there are none.
    """
    if args:
        return args[0], args[1:], kwargs
    name = next(iter(inspect.signature(layer.call).parameters), "")
    return kwargs.get(name), (), {key: value for key, value in kwargs.items() if key != name}


def is_floating(tensor: Any) -> bool:
    """Whether it is a single tensor of a floating type, which gradients flow through."""
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
