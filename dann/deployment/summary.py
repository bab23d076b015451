"""The bits and the operations of a model, layer by layer."""

import math
from collections import Counter

import keras
import numpy as np
import pandas

from dann.deployment.packing import network_of, program_of
from dann.deployment.tracing import PackError
from dann.layers.binary_layer import BinaryLayer

_STATE = ("step", "sharpness")  # of a quantizer in training


def summarize(classifier: keras.Model) -> pandas.DataFrame:
    """Summarizes the bits and the operations of every layer of a classifier.

    It counts the weights of the layers themselves, so it takes any built model. A packed file is a
    little larger or smaller: batch normalization before a sign takes 33 bits a channel there, and
    rows of bits are filled up to whole words.

    Args:
        classifier: A built model, or a method of `dann.adaptation`, whose `classifier` it takes.

    Returns:
        A row for each layer, by its name after those of the models that it is nested in:

        - `output_shape`: without the batch; `()` if not known, as in subclassed models
        - `weights`: how many there are of each width in bits: 1 for a binary kernel, 32 for a float
        - `bytes`, `float_bytes`: of its weights, each at its width, and all in float32
        - `binary_macs`, `float_macs`: multiply-accumulates of signs with signs, and the others of
          its kernels, for one input, over all its calls; `None` if the model cannot be packed

    Raises:
        PackError: If the model is not built.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> layers = [keras.Input((64,)), BinaryDense(2, use_bias=False, name="last")]
    >>> table = summarize(keras.Sequential(layers))
    >>> table.weights["last"], int(table.binary_macs["last"]), int(table["bytes"].sum())
    ({1: 128}, 128, 16)
    """
    network, steps = network_of(classifier), ()
    try:
        steps = program_of(network)
    except PackError:
        if not network.built:
            raise
    rows = [_row(name, layer, steps) for name, layer in _layers(network, "")]
    return pandas.DataFrame(rows).set_index("layer")


def _layers(model, prefix):
    for layer in model.layers:
        name = f"{prefix}{layer.name}"
        if isinstance(layer, keras.Model):
            yield from _layers(layer, f"{name}/")
        elif not isinstance(layer, keras.layers.InputLayer):
            yield name, layer


def _row(name, layer, steps):
    weights: Counter[int] = Counter()
    kernel, scale = None, None
    if isinstance(layer, BinaryLayer):
        kernel, scale = layer.kernel, layer.kernel_scale()
    for weight in [one for one in layer.weights if one.name not in _STATE]:
        bits = layer.kernel_quantizer.bits if weight is kernel else 8 * np.asarray(weight).itemsize
        weights[bits] += math.prod(weight.shape)
    if scale is not None:
        weights[32] += math.prod(scale.shape)
    macs = {"binary": 0, "float": 0}
    for step in steps:
        if step.layer == name and "fan_in" in step.attributes:
            kind = "binary" if step.op.startswith("binary") else "float"
            macs[kind] += math.prod(step.shape) * step.attributes["fan_in"]
    output = getattr(layer, "output", None)  # unless it was never called on a symbolic tensor
    return {
        "layer": name,
        "output_shape": () if output is None else tuple(output.shape[1:]),
        "weights": dict(weights),
        "bytes": -(-sum(width * count for width, count in weights.items()) // 8),
        "float_bytes": 4 * weights.total(),
        "binary_macs": macs["binary"] if steps else None,
        "float_macs": macs["float"] if steps else None,
    }
