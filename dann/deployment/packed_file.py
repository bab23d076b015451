"""Writes packed files; `docs/deployment.md` shows their layout, and `runtime.py` reads them."""

import json
from collections.abc import Sequence

import numpy as np

from dann.deployment.runtime import HEADER, MAGIC, VERSION, Step, digest_of

_ALIGNMENT = 8


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
                size += array.nbytes + -array.nbytes % _ALIGNMENT
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
    return content + with_byte * (-len(content) % _ALIGNMENT)
