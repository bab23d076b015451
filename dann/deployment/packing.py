"""Turns a Keras classifier into a packed file."""

import os
import pathlib

import keras

from dann.adaptation import AdversarialModel
from dann.deployment.folding import Program
from dann.deployment.layer_rules import RULES
from dann.deployment.packed_file import encode
from dann.deployment.runtime import Step
from dann.deployment.tracing import PackError, fixed_shape, follow


def pack(classifier: keras.Model, path: str | os.PathLike) -> int:
    """Writes a classifier as a packed file: binary kernels take one bit per weight.

    Bias, batch normalization and ReLU between the sums of a binary layer and the next sign become
    one integer threshold for each channel, found by calling the layers themselves. Layers that are
    not binary, usually the first and the last, stay in float32. `docs/deployment.md` shows the
    layout of the file.

    The outputs are those of the classifier. If the float32 layers before give the same values, the
    binary layers make the same decisions and sums, and the logits are the same to the last bit.
    Sums of floats may differ in their last digits, because their order differs between programs.
    NaN is an exception: no bit stands for it and its sign counts as -1, so a file may give finite
    logits where the classifier gives NaN.

    Args:
        classifier: Model of one input and one output in float32, or a method of `dann.adaptation`,
            whose `classifier` it takes.
        path: Where to write; it replaces a file that is there.

    Returns:
        The size of the file in bytes.

    Raises:
        PackError: If a layer cannot be packed; the error names it.
        TypeError: If `classifier` is not a Keras model.

    Example:

    >>> import keras, numpy as np, tempfile
    >>> from dann.deployment import load, pack
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = pack(model, f"{folder}/model.dann")
    ...     packed = load(f"{folder}/model.dann")
    >>> packed.predict(np.zeros((3, 4))).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    return pathlib.Path(path).write_bytes(encode(program_of(classifier)))


def program_of(classifier: keras.Model) -> list[Step]:
    """Returns the program that `pack` writes."""
    network = network_of(classifier)
    inputs = getattr(network, "inputs", None)
    if inputs is None:  # a subclassed model, or one that is not built
        shape = (network.get_build_config() or {}).get("input_shape")
        inputs = [keras.KerasTensor(shape)] if isinstance(shape, tuple | list) else []
    program = Program(fixed_shape(inputs[0].shape, "input")) if len(inputs) == 1 else None
    last = follow(program, RULES, network.call, inputs, [0], "") if program else []
    if len(last) != 1 or program is None:
        raise PackError(
            "A packed classifier has one input of known shape and one output: begin it with "
            "`keras.Input`, call it on a batch, or give `keras.Model(inputs, outputs)`. Received: "
            f"{len(inputs)} inputs, {len(last)} outputs of {network.name!r}"
        )
    return program.needed(last[0])


def network_of(classifier: keras.Model) -> keras.Model:
    """Returns the network of a classifier; for a method, its `classifier`."""
    if not isinstance(classifier, keras.Model):
        raise TypeError(f"A classifier must be a Keras model. Received: {classifier!r}")
    return classifier.classifier if isinstance(classifier, AdversarialModel) else classifier
