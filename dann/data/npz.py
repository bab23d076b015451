"""The reader of `.npz` files."""

import os
import pathlib
from typing import Any

import numpy as np

from dann.data.arrays import arrays
from dann.data.domain_pair import DomainPair
from dann.data.parts import READERS, check_apart


@READERS.register("npz")
def npz(
    source: str | os.PathLike,
    target: str | os.PathLike,
    *,
    source_name: str | None = None,
    target_name: str | None = None,
    target_new: str | os.PathLike | None = None,
    groups: str | None = None,
    **options: Any,
) -> DomainPair:
    """Pairs two `.npz` files, as `numpy.savez(path, x=inputs, y=labels)` writes them.

    A file holds the inputs `x` and the labels `y`, and `x_test` and `y_test` if its test set is not
    to be drawn. A target may lack labels. Other keys are ignored.

    Args:
        source: Path of the source's file.
        target: Path of the target's file.
        source_name: Name of the source. Defaults to the file's name.
        target_name: Name of the target. Defaults to the file's name.
        target_new: Path of further target examples, labelled or not, in the place of the target's
            test set, as `scripts/evaluate.py target=` gives it. Defaults to `None`.
        groups: Name of the array with the group of each example, such as `"subject"`: whole groups
            are drawn to test on; see `dann.data.arrays`. Defaults to `None`.
        **options: `test_share`, `seed` and `class_names` of `dann.data.arrays`.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file holds objects or lacks a key, the arrays are empty or do not fit, or
            both domains are one file.
        zipfile.BadZipFile: If a file is broken.
    """
    given = {"source": source, "target": target, "target_test": target_new}
    paths = {name: pathlib.Path(path).expanduser() for name, path in given.items() if path}
    check_apart(paths, os.path.samefile, "files")
    parts, group_of = {}, {}
    keys = ("x", "y", "x_test", "y_test", *([groups] if groups else ()))
    for domain, path in paths.items():
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                found = {key: file[key] for key in keys if key in file}
        except ValueError as error:  # NumPy advises to trust the file
            raise ValueError(f"Expected an .npz file of numbers. Received: {path}") from error
        if "x" not in found:
            raise ValueError(f"The {domain}'s file must hold `x`. Received: {path} without it")
        if groups and groups not in found and domain != "target_test":
            raise ValueError(f"The {domain}'s file must hold {groups!r}. Received: {list(found)}")
        group_of[domain] = found.get(groups or "")
        parts[domain] = found["x"], found.get("y")
        if "x_test" in found and domain != "target_test":
            parts[f"{domain}_test"] = found["x_test"], found.get("y_test")
    return arrays(
        **parts,
        source_name=source_name or paths["source"].stem,
        target_name=target_name or paths["target"].stem,
        groups=(group_of["source"], group_of["target"]),
        **options,
    )
