"""The layers of a Keras model, and of the models in it, as one graph."""

import dataclasses
import inspect
import traceback
from collections.abc import Sequence
from typing import Any

import keras


class PackError(ValueError):
    """A model, or a layer of it, cannot be packed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One call of a layer.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        layer: The layer or the operation of `keras.ops`; `None` for the input.
        inputs: The calls whose outputs it takes.
        shape: Shape of its output, without the batch.
        arguments: What it is called with by place: calls, numbers, lists of them.
    """

    name: str
    layer: Any
    inputs: Sequence["Node"]
    shape: tuple[int, ...]
    arguments: Sequence[Any] = ()


def trace(model: keras.Model) -> list[Node]:
    """Returns the calls of layers in a model, each after its inputs; the last gives the output.

    It looks into nested models, also into subclassed ones whose `call` takes one tensor and runs on
    a symbolic one.

    Raises:
        PackError: If the model is not built or its layers are not known; if it has several inputs
            or outputs; if an axis other than the batch has no fixed size; or if a layer is called
            with more than its inputs.
    """
    if not model.built:
        raise PackError(
            "A classifier must be built: begin it with `keras.Input`, or call it on a batch. "
            f"Received: {type(model).__name__} {model.name!r}, not built"
        )
    graph = _graph(model)
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise PackError(
            "A packed classifier has one input and one output. Received: "
            f"{len(graph.inputs)} inputs, {len(graph.outputs)} outputs of {model.name!r}"
        )
    calls = [Node("input", None, (), _fixed_shape(graph.inputs[0].shape, "input"))]
    (output,) = _follow(graph, "", calls[:], calls)
    return calls[: calls.index(output) + 1]


def _graph(model):
    """The functional model that computes as a model does."""
    functional = isinstance(getattr(model, "inputs", None), list)
    if functional and type(model).call.__module__.startswith("keras."):
        return keras.Model(model.inputs, model.outputs)
    shape = (model.get_build_config() or {}).get("input_shape")
    if functional or not isinstance(shape, tuple | list):
        raise PackError(
            "A model can be packed if its layers are known: call them on a `keras.Input` and give "
            f"`keras.Model(inputs, outputs)`. Received: {type(model).__name__} {model.name!r}"
        )
    inference = "training" in inspect.signature(model.call).parameters
    inputs = keras.Input(shape[1:])
    try:
        outputs = model.call(inputs, **({"training": False} if inference else {}))
        return keras.Model(inputs, outputs)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [one.line for one in frames if "keras" not in one.filename]
        raise PackError(
            f"Model {model.name!r} must call layers or `keras.ops` alone to be packed; on a "
            f"`keras.Input` it fails. Received: {lines[-1]}"
        ) from error


def _follow(graph, prefix, inputs, calls):
    """Adds the calls in a functional model; returns those that give its outputs."""
    known = {id(tensor): call for tensor, call in zip(graph.inputs, inputs, strict=True)}
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            if not node.is_input:
                found = _called(node, prefix, known, calls)
                known.update(zip(map(id, node.output_tensors), found, strict=True))
    return [known[id(tensor)] for tensor in graph.outputs]


def _called(node, prefix, known, calls):
    layer, name = node.operation, prefix + node.operation.name
    inputs = [known[id(tensor)] for tensor in node.input_tensors]
    if isinstance(layer, keras.layers.Layer):
        _check_arguments(name, **node.arguments.kwargs)
    if isinstance(layer, keras.Model):
        graph = _graph(layer)
        if len(graph.inputs) != len(inputs) or isinstance(node.arguments.args[0], dict):
            raise PackError(
                f"Model {name!r} must be called with a list of its {len(graph.inputs)} inputs to "
                "be packed"
            )
        return _follow(graph, f"{name}/", inputs, calls)
    arguments = [known.get(id(one), one) for one in keras.tree.flatten(node.arguments.args)]
    shapes = [_fixed_shape(tensor.shape, name) for tensor in node.output_tensors]
    found = [Node(name, layer, tuple(inputs), shape, arguments) for shape in shapes]
    calls.extend(found)
    return found


def _check_arguments(name, training=None, mask=None, **others):
    if training or others or any(one is not None for one in keras.tree.flatten(mask)):
        raise PackError(
            f"Layer {name!r} must be called with its inputs alone to be packed, because a packed "
            f"file computes as at inference. Received: training={training}, {sorted(others)}"
        )


def _fixed_shape(shape, name):
    if None in shape[1:]:
        raise PackError(
            "A packed classifier takes inputs of one size; give it to `keras.Input`. Received: "
            f"{tuple(shape)} at {name!r}"
        )
    return tuple(int(size) for size in shape[1:])
