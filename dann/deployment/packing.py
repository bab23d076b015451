"""Turns a Keras classifier into a packed file.

`docs/deployment.md` shows its layout, and `runtime.py` reads it.
"""

import json
import math
import os
import pathlib
from collections.abc import Sequence

import keras
import numpy as np
import pandas

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


def summarize(classifier: keras.Model) -> pandas.DataFrame:
    """Summarizes what the packed file of a classifier has of every layer.

    Batch normalization before a sign is a threshold and a bit a channel there, and layers that do
    nothing at inference are not in it.

    Args:
        classifier: What `dann.deployment.pack` takes.

    Returns:
        A row for each layer, by its name after those of the models that it is nested in:

        - `output_shape`: without the batch
        - `bits`, `numbers`: how many weights are stored in 1 bit, and in 32
        - `bytes`: of both; the file fills rows of bits up to whole words
        - `binary_macs`, `float_macs`: multiply-accumulates of signs with signs, and the others of
          its kernels, for one input, over all its calls

    Raises:
        PackError: If a layer cannot be packed; the error names it.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> layers = [keras.Input((64,)), BinaryDense(2, use_bias=False, name="last")]
    >>> table = summarize(keras.Sequential(layers)).T["last"]
    >>> int(table.bits), int(table.bytes), int(table.binary_macs)
    (128, 16, 128)
    """
    stored, rows = set(), []
    for step in program_of(classifier)[1:]:
        # A layer that is called twice is stored once.
        new = {(step.layer, array.tobytes()): array for array in step.arrays.values()}
        arrays = [array for key, array in new.items() if key not in stored]
        stored.update(new)
        bits = sum(array.size for array in arrays if array.itemsize == 1)
        numbers = sum(array.size for array in arrays if array.itemsize > 1)
        binary, fan_in = step.op.startswith("binary"), step.attributes.get("fan_in", 0)
        macs = math.prod(step.shape) * fan_in
        row = tuple(step.shape), bits, numbers, -(-bits // 8) + 4 * numbers
        rows.append((step.layer, *row, macs * binary, macs * (not binary)))
    names = ["output_shape", "bits", "numbers", "bytes", "binary_macs", "float_macs"]
    table = pandas.DataFrame(rows, columns=["layer", *names]).groupby("layer", sort=False)
    return table.agg({"output_shape": "last", **dict.fromkeys(names[1:], "sum")})


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
