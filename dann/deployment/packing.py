"""Turns a Keras classifier into a packed file.

`docs/deployment.md` shows its layout, and `runtime.py` reads it.
"""

import json
import os
import pathlib
from collections.abc import Sequence

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.deployment.folding import Program
from dann.deployment.layer_rules import RULES
from dann.deployment.runtime import HEADER, MAGIC, VERSION, Step, digest_of
from dann.deployment.tracing import PackError, fixed_shape, follow


def pack(classifier: keras.Model, path: str | os.PathLike) -> int:
    """Writes a classifier as a packed file: binary kernels take one bit per weight.

    Bias, batch normalization and ReLU between the sums of a binary layer and the next sign become
    one integer threshold for each channel, found by calling the layers themselves. Layers that are
    not binary, usually the first and the last, stay in float32. The page Deployment shows the
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
    given = f"{len(inputs)} inputs"
    if len(inputs) == 1:
        program = Program(fixed_shape(inputs[0].shape, "input"), RULES)
        last = follow(program, network.call, inputs, [0], "")
        if len(last) == 1:
            return program.needed(last[0])
        given = f"{len(last)} outputs"
    raise PackError(
        "A packed classifier has one input of known shape and one output: use `keras.Input`, call "
        f"it on a batch, or give `keras.Model(inputs, outputs)`. Received: {network.name}, {given}"
    )


def network_of(classifier: keras.Model) -> keras.Model:
    """Returns the network of a classifier; for a method, its `classifier`."""
    return classifier.classifier if isinstance(classifier, AdversarialModel) else classifier


def encode(steps: Sequence[Step]) -> bytes:
    """Returns the packed file of a program: header, directory, arrays.

    It stores the arrays of a layer only once, even if the layer is called twice.
    """
    places, entries, size = {}, [], 0
    for step in steps:
        stored = {}
        for name, array in map(_stored, step.arrays.items()):
            content = (step.layer, array.tobytes())
            if content not in places:
                places[content] = size
                size += array.nbytes + -array.nbytes % 8
            place = {"type": array.dtype.str, "shape": array.shape, "offset": places[content]}
            stored[name] = place
        entries.append({**vars(step), "arrays": stored})
    directory = _filled(json.dumps({"steps": entries}, separators=(",", ":")).encode(), b" ")
    payload = directory + b"".join(_filled(content, b"\0") for _, content in places)
    fields = (MAGIC, VERSION, len(directory), HEADER.size + len(payload))
    digest = digest_of(HEADER.pack(*fields, b"") + payload)
    return HEADER.pack(*fields, digest) + payload


def _stored(item):
    """The name and the array in the file: a row of bits for each unit of a kernel of signs."""
    name, array = item
    if array.dtype == "int8":
        return "kernel_bits", pack_bits(array.reshape(-1, array.shape[-1]).T > 0)
    return name, pack_bits(array) if array.dtype == bool else array


def pack_bits(positive: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., size)` along the last axis into 64-bit words `(..., words)`.

    `dann.deployment.runtime.unpack_bits` shows the order. The unused bits of the last word are 0.
    """
    rest = [(0, 0)] * (positive.ndim - 1) + [(0, -positive.shape[-1] % 64)]
    octets = np.packbits(np.pad(positive, rest), axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view("<u8")


def _filled(content, with_byte):
    return content + with_byte * (-len(content) % 8)
