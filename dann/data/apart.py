"""What is tested on is not trained on."""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np


def file_of(path: str | os.PathLike) -> tuple[int, int] | str:
    """Returns which file a path leads to, alike for all its links, symbolic or hard.

    A path to nothing gives where its links end.
    """
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    # Some network file systems do not number their files.
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def check_apart(trained: Mapping[str, os.PathLike], tested: Mapping[str, os.PathLike]) -> None:
    """Refuses a file that is tested on and trained on; links of either kind are that file.

    What different files hold is not compared.

    Args:
        trained: Paths of what is trained on, by what they are: `"source"` and `"target"`.
        tested: Paths of what test sets come from. One with a name of `trained` is that file, of
            which a part is held out; it must differ from the others alone.

    Raises:
        ValueError: If two paths that must be apart lead to one file.
    """
    for (part, path), (other, other_path) in _must_differ(trained, tested):
        if file_of(path) == file_of(other_path):
            raise ValueError(
                f"The {part} and the {other} must be different files: nothing may be tested "
                f"on that is trained on. Received: {path} and {other_path}"
            )


def check_arrays_apart(trained: Mapping[str, Any], tested: Mapping[str, Any]) -> None:
    """As `check_apart`, for arrays: no value may lie in the memory of two that must be apart.

    Args:
        trained: Inputs that are trained on, by what they are.
        tested: Inputs that test sets come from.

    Raises:
        ValueError: If two arrays that must be apart share memory.
    """
    for (part, values), (other, others) in _must_differ(trained, tested):
        if values is others or np.shares_memory(values, others):
            raise ValueError(
                f"The {part} and the {other} must be different arrays: nothing may be tested on "
                f"that is trained on. Received: inputs {np.shape(values)} and {np.shape(others)} "
                "that share memory"
            )


def _must_differ(trained, tested):
    pairs = itertools.product(tested.items(), trained.items())
    return [(test, train) for test, train in pairs if test[0] != train[0]]
