"""What a pair of inputs is made of."""

import itertools
from typing import Any

import keras
from keras import ops

PARTS = ("source", "target", "target_labelled")  # in the order of a joint pass


def is_pair(inputs: Any) -> bool:
    """Whether `inputs` hold both domains."""
    return isinstance(inputs, dict) and {"source", "target"} <= set(inputs)


def parts_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """Returns the parts of a pair that are inputs of the backbone, in order."""
    return {name: inputs[name] for name in PARTS if name in inputs}


def labelled_parts(values: dict[str, Any]) -> Any:
    """Returns what belongs to the labels, in their order: the source, then a labelled target."""
    return ops.concatenate([part for name, part in parts_of(values).items() if name != "target"])


def in_one_pass(network: keras.Model, parts: dict[str, Any], training: bool) -> dict[str, Any]:
    """Runs a network once over all parts and returns its outputs by the same names."""
    outputs = network(ops.concatenate(list(parts.values())), training=training)
    ends = list(itertools.accumulate(ops.shape(part)[0] for part in parts.values()))
    return {
        name: outputs[start:end] for name, start, end in zip(parts, [0, *ends], ends, strict=False)
    }
