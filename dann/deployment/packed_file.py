"""The format of packed files; `docs/deployment.md` shows its layout."""

import errno
import hashlib
import json
import math
import os
import pathlib
import struct
import tempfile

import numpy as np

from dann.deployment.program import Program, Step
from dann.deployment.program_checks import check_program

MAGIC = b"DANNBITS"
VERSION = 1
HEADER = 64  # bytes
_ALIGNMENT = 8
_FIELDS = struct.Struct("<8sIIQ8x32s")  # magic, version, bytes of directory, of file, SHA-256


class PackedFileError(ValueError):
    """The file cannot be loaded: not a packed file, of another version, damaged or cut short."""


def encode(program: Program) -> bytes:
    """Returns the packed file of a program: header, directory, arrays.

    It stores the arrays of a layer only once, even if the layer is called twice.
    """
    places, steps, size = {}, [], 0
    for step in program.steps:
        entry = {
            "op": step.op,
            "layer": step.layer,
            "inputs": list(step.inputs),
            "shape": list(step.shape),
            "kind": step.kind,
            **({"attributes": dict(step.attributes)} if step.attributes else {}),
        }
        for name, array in step.arrays.items():
            content = (step.layer, array.tobytes())
            if content not in places:
                places[content] = size
                size += array.nbytes + -array.nbytes % _ALIGNMENT
            place = {"type": array.dtype.str, "shape": list(array.shape)}
            entry.setdefault("arrays", {})[name] = {**place, "offset": places[content]}
        steps.append(entry)
    directory = json.dumps({"steps": steps}, separators=(",", ":")).encode()
    directory += b" " * (-len(directory) % _ALIGNMENT)
    arrays = [content + bytes(-len(content) % _ALIGNMENT) for _, content in places]
    payload = b"".join([directory, *arrays])
    return _header(len(directory), payload) + payload


def _header(directory_size, payload):
    fields = (MAGIC, VERSION, directory_size, HEADER + len(payload))
    digest = _digest(_FIELDS.pack(*fields, bytes(32)), payload)
    return _FIELDS.pack(*fields, digest)


def _digest(header, payload):
    """SHA-256 of the whole file with zeros in place of the digest."""
    digest = hashlib.sha256(header)
    digest.update(payload)
    return digest.digest()


def write(program: Program, path: str | os.PathLike) -> int:
    """Writes a packed file, whole or not at all, and returns its size in bytes."""
    path, data = pathlib.Path(path), encode(program)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # not the draft's name
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return len(data)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: str | os.PathLike) -> Program:
    """Reads and checks a packed file.

    Raises:
        FileNotFoundError: If it is not there.
        PackedFileError: If it is not a packed file, or of another version, damaged or cut short.
    """
    return decode(pathlib.Path(path).read_bytes(), str(path))


def decode(data: bytes, name: str = "the file") -> Program:
    """Returns the program of a packed file; see `read`.

    Args:
        data: The file's content.
        name: What to call it in errors.
    """
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise PackedFileError(
            f"Expected a file that `dann.deployment.pack` wrote, which begins with {MAGIC}. "
            f"Received: {name}, which begins with {data[: len(MAGIC)]}"
        )
    if len(data) < HEADER:
        raise PackedFileError(f"{name} is cut short: {len(data)} bytes are no header of {HEADER}")
    _, version, directory_size, size, digest = _FIELDS.unpack_from(data)
    if version != VERSION:
        raise PackedFileError(
            f"This version of dann reads packed files of version {VERSION}; pack the classifier "
            f"again with it. Received: {name} of version {version}"
        )
    if size != len(data):
        raise PackedFileError(
            f"{name} is cut short or damaged: its header says {size} bytes. Received: {len(data)}"
        )
    header = data[: HEADER - len(digest)] + bytes(len(digest))
    if digest != _digest(header, memoryview(data)[HEADER:]):
        raise PackedFileError(
            f"{name} is damaged: its content does not have the SHA-256 in its header. Copy it again"
        )
    try:
        program = _program(data, directory_size)
        check_program(program)
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise PackedFileError(f"{name} does not hold a program: {error}") from error
    return program


def _program(data, directory_size):
    start = HEADER + directory_size
    content = memoryview(data)[start:]
    steps = []
    for entry in json.loads(data[HEADER:start])["steps"]:
        arrays = {
            array: _array(content, **place) for array, place in entry.pop("arrays", {}).items()
        }
        steps.append(Step(**entry, arrays=arrays))
    return Program(steps)


def _array(content, type, shape, offset):
    if offset % _ALIGNMENT or not 0 <= offset <= len(content):
        raise ValueError(
            f"Arrays begin at multiples of {_ALIGNMENT} within their {len(content)} bytes. "
            f"Received: an offset of {offset}"
        )
    if any(size < 0 for size in shape):
        raise ValueError(f"The shape of an array has no negative sizes. Received: {shape}")
    array = np.frombuffer(content, np.dtype(type), count=math.prod(shape), offset=offset)
    return array.reshape(shape)


def stored_arrays(program: Program) -> list[dict[str, np.ndarray]]:
    """Returns the arrays of each step by name, without those that an earlier step stores."""
    known, stored = set(), []
    for step in program.steps:
        stored.append({})
        for name, array in step.arrays.items():
            content = (step.layer, array.tobytes())
            if content not in known:
                known.add(content)
                stored[-1][name] = array
    return stored


def size_beside_arrays(program: Program) -> int:
    """Bytes of the header, the directory and the padding between arrays."""
    arrays = (array for step in stored_arrays(program) for array in step.values())
    return len(encode(program)) - sum(array.nbytes for array in arrays)
