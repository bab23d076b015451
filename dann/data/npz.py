"""Reader of `.npz` files."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.nuisances import parse_nuisances
from dann.data.parts import build_pair, resolve_files, select_columns


def npz(
    source: str | os.PathLike,
    target: str | os.PathLike | None = None,
    *,
    target_new: str | os.PathLike | None = None,
    groups: str | None = None,
    nuisances: Sequence[str] | Mapping[str, Any] | None = None,
    **options: Any,
) -> DomainPair:
    """Pairs two `.npz` files, as `numpy.savez(path, x=inputs, y=labels)` writes them.

    A file contains inputs `x` and labels `y`, and optionally a test set `x_test` and `y_test`;
    otherwise a test set is drawn. Labels of the target are optional. Other keys are ignored.

    With `nuisances`, the function reads one labeled file and holds out a part of it; see
    `dann.Invariant`. A file with `x_test` then also contains the nuisances of the test set, such as
    `site_test`.

    Args:
        source: Path of the source's file.
        target: Path of the target's file. Defaults to `None`: one labeled file, the source.
        target_new: Path of new target examples, labeled or not, which replace the target's test
            set. `scripts/evaluate.py target=...` sets it. Defaults to `None`.
        groups: Key of the group of each example, such as `"subject"`. Whole groups are then drawn
            for test sets; see `dann.data.arrays`. Defaults to `None`.
        nuisances: Keys of the nuisances `(n,)` of one labeled file; or a dict from key to number
            of classes or `"number"`; see `dann.data.nuisances.encode_nuisances`. Defaults to
            `None`.
        **options: `test_share`, `seed`, `class_names` and `task` of `dann.data.arrays`.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file is damaged, contains objects or lacks a key; arrays are empty or do
            not match; or both domains are the same file.
    """
    kinds = parse_nuisances(nuisances, target is not None)
    paths = resolve_files({"source": source, "target": target, "new target": target_new})
    columns, parts = {"inputs": "x", "labels": "y", "groups": groups}, {}
    for part, path in paths.items():
        try:
            with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as file:
                parts[part] = select_columns(part, file, columns, kinds)
                if "x_test" in file and part != "new target":
                    test = f"{part} test"
                    parts[test] = select_columns(test, file, columns, kinds, suffix="_test")
        except (TypeError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"Cannot read {path} as an .npz file of numbers or strings: {error}"
            ) from error
    return build_pair(
        parts,
        source_name=paths["source"].stem,
        target_name=paths.get("target", paths["source"]).stem,
        kinds=kinds,
        **options,
    )
