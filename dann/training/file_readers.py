"""Readers of the files of a run. Their errors name the file."""

import pathlib
from typing import Any

import keras
import pandas

# Model files contain classes that these packages register with Keras.
import dann.adaptation  # noqa: F401
import dann.optimizers  # noqa: F401

LARGEST_FILE = 4 << 30  # bytes; no file of a run comes near it


def load_model(path: pathlib.Path, compile: bool = True) -> Any:
    """Loads a `.keras` file in safe mode.

    Args:
        path: The file.
        compile: Whether to load the optimizer and the losses. Defaults to `True`.

    Raises:
        ValueError: If the file cannot be read, or contains code. `__cause__` is the error of Keras.
    """
    try:
        return keras.models.load_model(path, compile=compile, safe_mode=True)
    except Exception as error:  # a strange config can raise anything
        raise ValueError(
            "Expected a Keras model with its weights, without code, made of classes of Keras and "
            f"of this package. Received: {path}, which cannot be read as a model"
        ) from error


def check_file(path: pathlib.Path, origin: str) -> pathlib.Path:
    """Returns the path of an existing file of at most 4 GiB; errors name the `origin`."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected {origin}. Received: no {path}")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"Expected at most {LARGEST_FILE:,} bytes. Received: {path}, of {size:,}")
    return path


def read_table(path: pathlib.Path, origin: str, **options: Any) -> Any:
    """Returns a CSV file as a frame. `options` are those of `pandas.read_csv`."""
    return pandas.read_csv(check_file(path, origin), **options)
