"""Turns a Keras classifier into a packed file."""

import os

import keras

from dann.adaptation import AdversarialModel
from dann.deployment import binary_rules, convolution_rules, layer_rules
from dann.deployment.folding import fold
from dann.deployment.graph import PackError, trace
from dann.deployment.lowering import lower
from dann.deployment.packed_file import write
from dann.deployment.program import Program
from dann.deployment.program_checks import check_program

__all__ = ["PackError", "lowered", "network_of", "pack", "program_of"]


def pack(classifier: keras.Model, path: str | os.PathLike) -> int:
    """Writes a classifier as a packed file: binary kernels take one bit per weight.

    Bias, batch normalization and ReLU between the sums of a binary layer and the next sign become
    one integer threshold for each channel, found by calling the layers themselves. Layers that are
    not binary, usually the first and the last, stay in float32. The file is written whole or not at
    all; `docs/deployment.md` shows its layout.

    The outputs are those of the classifier. If the float32 layers before give the same values, the
    binary layers make the same decisions and sums, and the logits are the same to the last bit.
    Sums of floats may differ in their last digits, because their order differs between programs.
    NaN is an exception: no bit stands for it and its sign counts as -1, so a file may give finite
    logits where the classifier gives NaN.

    Args:
        classifier: Functional or sequential model of one input and one output in float32, or a
            method of `dann.adaptation`, whose `classifier` it takes.
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
    program = program_of(classifier)
    try:
        check_program(program)
    except ValueError as error:
        raise PackError(f"No engine would run it: {error}") from error
    return write(program, path)


def program_of(classifier: keras.Model) -> Program:
    """Returns the program that `pack` writes."""
    return fold(lowered(network_of(classifier)))


def network_of(classifier: keras.Model) -> keras.Model:
    """Returns the network of a classifier; for a method, its `classifier`.

    Raises:
        TypeError: If it is not a Keras model.
    """
    if not isinstance(classifier, keras.Model):
        raise TypeError(f"A classifier must be a Keras model. Received: {classifier!r}")
    return classifier.classifier if isinstance(classifier, AdversarialModel) else classifier


def lowered(network: keras.Model) -> Program:
    """Returns the program of a network before folding."""
    rules = {**layer_rules.LAYERS, **convolution_rules.LAYERS, **binary_rules.LAYERS}
    return lower(trace(network), rules, layer_rules.OPERATIONS)
