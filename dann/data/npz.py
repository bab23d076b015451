"""The reader of `.npz` files."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.nuisances import parse_nuisances
from dann.data.parts import build_pair, check_disjoint, select_columns


def npz(
    source: str | os.PathLike,
    target: str | os.PathLike | None = None,
    *,
    source_name: str | None = None,
    target_name: str | None = None,
    target_new: str | os.PathLike | None = None,
    groups: str | None = None,
    nuisances: Sequence[str] | Mapping[str, Any] | None = None,
    **options: Any,
) -> DomainPair:
    """Pairs two `.npz` files, as `numpy.savez(path, x=inputs, y=labels)` writes them.

    A file holds the inputs `x` and the labels `y`, and `x_test` and `y_test` if its test set is not
    to be drawn. A target may lack labels. Other keys are ignored.

    Or reads one file with nuisances, of which a part is held out; see `dann.Invariant`. Beside
    `x_test` it holds those of the test set, such as `site_test`.

    Args:
        source: Path of the source's file.
        target: Path of the target's file. Defaults to `None`: one labelled file, the source.
        source_name: Name of the source. Defaults to the file's name.
        target_name: Name of the target. Defaults to the file's name.
        target_new: Path of further target examples, labelled or not, in the place of the target's
            test set, as `scripts/evaluate.py target=` gives it. Defaults to `None`.
        groups: Name of the array with the group of each example, such as `"subject"`: whole groups
            are drawn to test on; see `dann.data.arrays`. Defaults to `None`.
        nuisances: Of one file the names of arrays `(n,)`, or by name the number of classes or
            `"number"`; see `dann.data.nuisances.encoded`. Defaults to `None`.
        **options: `test_share`, `seed` and `class_names` of `dann.data.arrays`.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file holds objects or lacks a key, the arrays are empty or do not fit, or
            both domains are one file.
        zipfile.BadZipFile: If a file is broken.
    """
    given = {"source": source, "target": target, "target new": target_new}
    kinds = parse_nuisances(nuisances, target)
    paths = {name: pathlib.Path(path).expanduser() for name, path in given.items() if path}
    check_disjoint(paths, os.path.samefile, "files")
    columns, parts = {"inputs": "x", "labels": "y", "groups": groups}, {}
    names = [name for name in (*columns.values(), *kinds) if name]
    for domain, path in paths.items():
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                found = {
                    ending: {name: file[name + ending] for name in names if name + ending in file}
                    for ending in ("", "_test")
                }
        except ValueError as error:  # NumPy advises to trust the file
            raise ValueError(f"Expected an .npz file of numbers. Received: {path}") from error
        parts[domain] = select_columns(domain, found[""], columns, kinds)
        if "x" in found["_test"] and domain != "target new":
            part = f"{domain} test"
            parts[part] = select_columns(part, found["_test"], columns, kinds)
    return build_pair(
        parts,
        source_name=source_name or paths["source"].stem,
        target_name=target_name or paths.get("target", paths["source"]).stem,
        kinds=kinds,
        **options,
    )
