"""The layers of a Keras model, and of the models in it, as one graph."""

import dataclasses
from collections.abc import Sequence
from inspect import signature
from typing import Any

import keras


class PackError(ValueError):
    """A model, or a layer of it, cannot be packed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One call of a layer.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        layer: The layer; `None` for the input.
        inputs: The calls whose outputs it takes.
        shape: Shape of its output, without the batch.
    """

    name: str
    layer: Any
    inputs: Sequence["Node"]
    shape: tuple[int, ...]


def trace(model: keras.Model) -> Node:
    """Returns the last call of a layer in a model; its `inputs` lead to the others.

    It looks into nested models, also into subclassed ones whose `call` takes one tensor and runs on
    a symbolic one. The model must have one input and one output.

    Raises:
        PackError: If the model is not built, or its layers are not known because they are called on
            numbers only, or beside those of a functional model; if it has several inputs or
            outputs; if an axis other than the batch has no fixed size; or if a layer is called with
            `training`.
    """
    if not model.built:
        raise PackError(
            "A classifier must be built: begin it with `keras.Input`, or call it on a batch. "
            f"Received: {type(model).__name__} {model.name!r}, not built"
        )
    graph = _graph(model)
    if graph is None:
        raise unknown_layers(model)
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise PackError(
            "A packed classifier has one input and one output. Received: "
            f"{len(graph.inputs)} inputs, {len(graph.outputs)} outputs of {model.name!r}"
        )
    (output,) = _outputs(graph, "", [_input(graph)])
    return output


def unknown_layers(model: keras.Model) -> PackError:
    """Returns the error of a model whose layers are not known, which says what to write."""
    return PackError(
        "A model can be packed if its layers are known, as those of a functional or sequential "
        "model without its own `call`: call the layers on a `keras.Input` and give "
        f"`keras.Model(inputs, outputs)`. Received: {type(model).__name__} {model.name!r}"
    )


def in_order(output: Node) -> list[Node]:
    """Returns the calls that lead to the last one, each after its inputs."""
    order, seen, waiting = [], set(), [output]
    while waiting:
        node = waiting[-1]
        missing = [one for one in node.inputs if one not in seen]
        if missing:
            waiting.extend(reversed(missing))
            continue
        waiting.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
    return order


def _graph(layer):
    """The functional or sequential model that computes as a model does; `None` if not known."""
    if not isinstance(layer, keras.Model):
        return None
    kind, functional = type(layer), isinstance(getattr(layer, "inputs", None), list)
    if isinstance(layer, keras.Sequential) or functional:
        known = layer.built and _are_of_keras(kind.call, kind.__call__)
        return layer if known else None
    return _subclassed(layer) if layer.built and _are_of_keras(kind.__call__) else None


def _subclassed(model):
    """The graph of the layers that a subclassed model calls, if it calls them on symbols."""
    shape = (model.get_build_config() or {}).get("input_shape")
    if not isinstance(shape, tuple | list) or not all(isinstance(n, int) for n in shape[1:]):
        return None
    inference = {"training": False} if "training" in signature(model.call).parameters else {}
    inputs = keras.Input(tuple(shape[1:]))
    try:
        return keras.Model(inputs, model.call(inputs, **inference))
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # it needs numbers
        return None


def _are_of_keras(*methods):
    """Whether methods are Keras's own; others may add to the graph."""
    return all(method.__module__.partition(".")[0] == "keras" for method in methods)


def _input(model):
    return Node("input", None, (), _fixed_shape(model.inputs[0].shape, "input"))


def _outputs(model, prefix, arguments):
    """The calls that give the outputs of a model, in their order."""
    if isinstance(model, keras.Sequential):
        return _outputs_of_layers(model.layers, prefix, arguments)
    known = dict(zip(map(id, model.inputs), arguments, strict=True))
    waiting = list(model.outputs)
    while waiting:
        history = waiting[-1]._keras_history
        layer = history.operation
        call = layer._inbound_nodes[history.node_index]
        tensors = [] if id(waiting[-1]) in known else _taken(layer, prefix + layer.name, call)
        missing = [tensor for tensor in tensors if id(tensor) not in known]
        if missing:
            waiting.extend(missing)
            continue
        if id(waiting.pop()) in known:
            continue
        inputs = [known[id(tensor)] for tensor in tensors]
        shapes = [tensor.shape for tensor in call.output_tensors]
        nodes = _called(layer, _graph(layer), prefix, inputs, shapes)
        known.update(zip(map(id, call.output_tensors), nodes, strict=True))
    return [known[id(tensor)] for tensor in model.outputs]


def _outputs_of_layers(layers, prefix, nodes):
    for layer in layers:
        shapes, graph = [], _graph(layer)
        if graph is None:
            _check_count(prefix + layer.name, nodes, 1)
            shapes = [layer.compute_output_shape((None, *nodes[0].shape))]
        nodes = _called(layer, graph, prefix, nodes, shapes)
    return nodes


def _called(layer, graph, prefix, inputs, shapes):
    """The calls that give the outputs of a layer, or of a nested model that has a graph."""
    name = prefix + layer.name
    if graph is not None:
        _check_count(name, inputs, len(graph.inputs))
        return _outputs(graph, f"{name}/", inputs)
    return [Node(name, layer, tuple(inputs), _fixed_shape(shape, name)) for shape in shapes]


def _check_count(name, inputs, count):
    if len(inputs) != count:
        raise PackError(
            f"Layer {name!r} must get as many tensors as it takes, {count}, to be packed. "
            f"Received: {len(inputs)}"
        )


def _taken(layer, name, call):
    """The tensors that a call takes, those of a nested model in the order of its inputs."""
    if not isinstance(layer, keras.layers.Layer):
        return call.input_tensors
    named = dict(call.arguments.kwargs)
    training = named.pop("training", None)
    if training not in (None, False):
        raise PackError(
            f"Layer {name!r} must be called without `training` to be packed, because a packed file "
            f"computes as at inference. Received: training={training}"
        )
    # Keras passes an empty mask for each input.
    given = [value for value in (*call.arguments.args, *named.values()) if not _is_empty(value)]
    if len(given) != 1:
        raise PackError(
            f"Layer {name!r} must be called with its inputs alone to be packed. "
            f"Received: {len(given)} arguments, by name {sorted(named)}"
        )
    expected = layer._inputs_struct if hasattr(layer, "_inputs_struct") else None
    if not isinstance(given[0], dict) or expected is None:
        return keras.tree.flatten(given[0])
    # As Keras does: a dictionary by the names of the inputs, or by the keys of the model's own.
    keys = sorted(expected) if isinstance(expected, dict) else [one.name for one in layer.inputs]
    if sorted(given[0]) != sorted(keys):
        raise PackError(
            f"Model {name!r} must get its inputs by their names, {keys}, to be packed. "
            f"Received: {sorted(given[0])}"
        )
    return keras.tree.flatten([given[0][key] for key in keys])


def _is_empty(value):
    return all(one is None for one in keras.tree.flatten(value))


def _fixed_shape(shape, name):
    if any(size is None for size in shape[1:]):
        raise PackError(
            "A packed classifier takes inputs of one size; give it to `keras.Input`. Received: "
            f"{tuple(shape)} at {name!r}"
        )
    return tuple(int(size) for size in shape[1:])
