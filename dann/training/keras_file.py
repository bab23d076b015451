"""A check of `.keras` files, before Keras reads them."""

import contextlib
import json
import math
import pathlib
import random
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# About the size of a config of a hundred thousand layers. To read a larger one, change this.
MAX_CONFIG_BYTES = 1 << 26
_TEXTS = ("config.json", "metadata.json")
_WEIGHTS = {"model.weights.h5", "model.weights.npz"}
_EXPANSION = 20  # Keras compresses nothing


class KerasFileError(ValueError):
    """A `.keras` file cannot be loaded: broken, too large, or it holds code."""


def check_keras_file(path: pathlib.Path) -> None:
    """Raises an error unless a `.keras` file is a complete archive with parts of sensible sizes.

    Every part is read once to verify its checksum, a piece at a time.

    Raises:
        KerasFileError: If it is broken, lacks a part, or would take far more memory than its size
            suggests.
        OSError: If it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_parts(path, archive, path.stat().st_size)
                broken = archive.testzip()
        except KerasFileError:
            raise
        except Exception as error:  # a broken archive can raise anything
            raise KerasFileError(
                f"Expected a Keras model, a .keras file. Received: {path}, which is cut short, "
                "damaged or something else"
            ) from error
    if broken:
        raise KerasFileError(
            f"Expected a whole .keras file. Received: {path}, in which {broken} is damaged: it "
            "does not have its checksum"
        )


def check_declared_size(path: pathlib.Path) -> None:
    """Raises `KerasFileError` if the network of a `.keras` file is far larger than its weights.

    Keras makes a network's weights before it looks at those in the file. Here the network is made
    once without any. A config that cannot be read passes: loading the file tells the error.
    """
    with zipfile.ZipFile(path) as archive:
        config = archive.read("config.json")
        sizes = {part.filename: part.file_size for part in archive.infolist()}
    stored = sum(sizes.get(name, 0) for name in _WEIGHTS)
    declared = 0
    # In a thread of its own: Keras keeps a list of such variables, and counts names, by thread.
    with contextlib.suppress(Exception), ThreadPoolExecutor(1) as thread:
        declared = thread.submit(_declared_bytes, config).result()
    if declared > 2 * stored + MAX_CONFIG_BYTES:
        raise KerasFileError(
            f"The network of a .keras file must be as large as the weights in it. Received: {path} "
            f"with a network of {declared:,} bytes and weights of {stored:,}"
        )


def _declared_bytes(config: bytes) -> int:
    """The memory that the weights of a network will take, which is made here without them."""
    import keras

    drawn = random.getstate()  # layers without a seed draw one
    try:
        with keras.StatelessScope(initialize_variables=False):
            network: Any = keras.saving.deserialize_keras_object(
                {**json.loads(config), "compile_config": None}, safe_mode=True
            )
            return sum(map(_bytes_of, network.variables))
    finally:
        random.setstate(drawn)


def _bytes_of(variable):
    size = {"float64": 8, "int64": 8, "uint64": 8, "bool": 1, "int8": 1, "uint8": 1}
    return math.prod(map(int, variable.shape)) * size.get(str(variable.dtype), 4)


def _check_parts(path, archive, size):
    parts = {part.filename: part.file_size for part in archive.infolist()}
    if not parts.keys() >= set(_TEXTS) or not _WEIGHTS & parts.keys():
        raise KerasFileError(
            f"A .keras file must hold {', '.join(_TEXTS)} and the weights. "
            f"Received: {path} with {', '.join(sorted(parts)[:5]) or 'nothing'}"
        )
    for name in _TEXTS:
        if parts[name] > MAX_CONFIG_BYTES:
            raise KerasFileError(
                f"{name} of a .keras file may have {MAX_CONFIG_BYTES:,} bytes, "
                "`dann.training.keras_file.MAX_CONFIG_BYTES`. "
                f"Received: {path} with {parts[name]:,}"
            )
    total = sum(part.file_size for part in archive.infolist())
    if total > _EXPANSION * size + MAX_CONFIG_BYTES:
        raise KerasFileError(
            f"The parts of a .keras file may have {_EXPANSION} times its size; if you trust it, "
            "pack it again without compression, as Keras does. "
            f"Received: {path} of {size:,} bytes with parts of {total:,}"
        )
