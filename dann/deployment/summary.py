"""What a classifier weighs and computes, layer by layer, as a packed file holds it."""

import math

import keras

from dann.deployment.estimate import estimated
from dann.deployment.folding import fold
from dann.deployment.packed_file import size_beside_arrays, stored_arrays
from dann.deployment.packing import PackError, lowered, network_of
from dann.deployment.summary_table import LayerSummary, ModelSummary
from dann.layers import BinarySign

__all__ = ["LayerSummary", "ModelSummary", "summarize"]

# What gives signs if it is given signs.
_OF_SIGNS = ("max_pool", "reshape")


def summarize(classifier: keras.Model) -> ModelSummary:
    """Tells what every layer of a classifier weighs and computes.

    Args:
        classifier: A model that is built, or a method of `dann.adaptation`, whose `classifier` is
            taken.

    Returns:
        A table. Of what `dann.deployment.pack` takes, its `bytes` are the size of the file. Of
        other models each layer is counted from its own weights, `bytes` are an estimate, and
        `reason` tells why they cannot be packed.

    Raises:
        PackError: If the model is not built.
        TypeError: If `classifier` is no Keras model.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> summary = summarize(keras.Sequential([keras.Input((64,)), BinaryDense(2, use_bias=False)]))
    >>> summary.layers[0].precision, summary.layers[0].bits, summary.layers[0].binary_macs
    ('1 bit', 128, 128)
    """
    model = network_of(classifier)
    try:
        plain = lowered(model)
    except PackError as error:
        if not model.built:
            raise
        return ModelSummary(estimated(model), 0, _float_bytes(model), str(error))
    program = fold(plain)
    names = dict.fromkeys(step.layer for step in plain.steps[1:])
    stored = list(zip(program.steps, stored_arrays(program), strict=True))
    layers = []
    for name in names:
        shape = [step.shape for step in plain.steps if step.layer == name][-1]
        own = [(step, arrays) for step, arrays in stored if step.layer == name]
        layers.append(_summary(name, shape, own, program.steps))
    return ModelSummary(layers, size_beside_arrays(program), _float_bytes(model))


def _float_bytes(model):
    """Bytes in float32 of the weights that inference needs: no schedules, no seeds."""
    signs = [layer for layer in model._flatten_layers() if isinstance(layer, BinarySign)]
    unneeded = {id(weight) for layer in signs for weight in (layer.step, layer.sharpness)}
    kept = [
        weight
        for weight in model.weights
        if "float" in str(weight.dtype) and id(weight) not in unneeded
    ]
    return 4 * sum(math.prod(weight.shape) for weight in kept)


def _summary(name, shape, own, steps):
    arrays = {key for step, _ in own for key in step.arrays}
    precision = ""
    if arrays:
        precision = "float32"
    if "thresholds" in arrays:
        precision = "int32"
    if "kernel_bits" in arrays:
        precision = "1 bit"
    macs = dict.fromkeys((True, False), 0)
    for step, _ in own:
        binary = "kernel_bits" in step.arrays and _gives_signs(steps, step.inputs[0])
        macs[binary] += step.attributes.get("macs", 0)
    return LayerSummary(
        name,
        tuple(shape),
        precision,
        sum(_bits(step, stored) for step, stored in own),
        sum(array.nbytes for _, stored in own for array in stored.values()),
        macs[True],
        macs[False],
    )


def _gives_signs(steps, number):
    while steps[number].op in _OF_SIGNS:
        (number,) = steps[number].inputs
    return steps[number].kind == "bits" or steps[number].op == "signs"


def _bits(step, stored):
    """Bits that the stored arrays of a step need: the rest of their last words left out."""
    total = 0
    for name, array in stored.items():
        if name == "kernel_bits":
            total += array.shape[0] * step.attributes["fan_in"]
        elif name == "flips":
            total += step.shape[-1]
        else:
            total += 8 * array.nbytes
    return total
