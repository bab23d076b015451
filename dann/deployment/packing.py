"""From a Keras classifier to a packed file."""

import os

import keras

from dann.adaptation import AdversarialModel
from dann.deployment import binary_rules, layer_rules
from dann.deployment.folding import fold
from dann.deployment.graph import PackError, trace
from dann.deployment.lowering import lower
from dann.deployment.packed_file import write
from dann.deployment.program import Program
from dann.deployment.program_checks import check_program

__all__ = ["PackError", "lowered", "network_of", "pack", "program_of"]


def pack(classifier: keras.Model, path: str | os.PathLike) -> int:
    """Writes a classifier as a packed file: binary kernels take one bit a weight.

    What stands between the sums of a binary layer and the next sign (bias, batch normalization,
    ReLU) becomes one integer threshold a channel, found by asking the layers themselves. What is
    not binary (the first and the last layer, as a rule) stays float32. The file is written in one
    piece or not at all; `docs/deployment.md` shows its layout.

    The outputs are those of the classifier: on every input the same decisions and sums in the
    binary layers, and so the same logits to the last bit, wherever the float32 arithmetic of the
    layers before them gives the same values; sums of floats may differ in their last digits,
    because the order of summation is not the same everywhere. The exception is NaN, which no bit
    can stand for: its sign counts as -1, so that a file may give finite logits where the
    classifier gives NaN.

    Args:
        classifier: Functional or sequential model of one input and one output in float32, or a
            method of `dann.adaptation`, whose `classifier` is taken.
        path: Where to write; what is there is replaced.

    Returns:
        The size of the file in bytes.

    Raises:
        PackError: If a layer cannot be packed; the error names it.
        TypeError: If `classifier` is no Keras model.

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
    """Returns what `pack` writes."""
    return fold(lowered(network_of(classifier)))


def network_of(classifier: keras.Model) -> keras.Model:
    """Returns the network of a classifier: of a method, what it predicts with.

    Raises:
        TypeError: If it is no Keras model.
    """
    if not isinstance(classifier, keras.Model):
        raise TypeError(f"A classifier must be a Keras model. Received: {classifier!r}")
    return classifier.classifier if isinstance(classifier, AdversarialModel) else classifier


def lowered(network: keras.Model) -> Program:
    """Returns the program of a network before anything is folded."""
    rules = {**layer_rules.LAYERS, **binary_rules.LAYERS}
    return lower(trace(network), rules, layer_rules.OPERATIONS)
