"""Two domains that are `.npz` files of arrays."""

import os
import pathlib
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np

from dann.data.apart import check_apart
from dann.data.arrays import arrays
from dann.data.domain_pair import DomainPair

_KEYS = ("x", "y", "x_test", "y_test")


def npz(
    source: str | os.PathLike,
    target: str | os.PathLike,
    *,
    test_share: float = 0.2,
    seed: int = 0,
    source_name: str | None = None,
    target_name: str | None = None,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> DomainPair:
    """Pairs two `.npz` files, as `numpy.savez(path, x=inputs, y=labels)` writes them.

    A file holds the inputs `x` and the labels `y`, and if its test set is not to be drawn, that
    too: `x_test` and `y_test`. The target's `y` may be left out if it has those. For what the
    arrays may be and how test sets are drawn see `dann.data.arrays`. Other keys are not read.

    Args:
        source: Path of the source's file.
        target: Path of the target's file.
        test_share: Share of the examples that is drawn for a test, in (0, 1). Defaults to `0.2`.
        seed: Seed of the draws.
        source_name: What to call the source. Defaults to the file's name.
        target_name: What to call the target. Defaults to the file's name.
        num_classes: Number of classes. Defaults to `None`, what the source's labels say.
        class_names: Names of the classes, by label.

    Raises:
        OSError: If a file is not there.
        ValueError: If it is not a `.npz` file or lacks a key, the arrays are empty or do not fit,
            or a test set would be drawn from a file that both domains are.
    """
    files = {"source": pathlib.Path(source), "target": pathlib.Path(target)}
    files = {domain: path.expanduser() for domain, path in files.items()}
    source_train, source_test = _read(files["source"], labelled=True)
    target_train, target_test = _read(files["target"], labelled=False)
    drawn = {"source": source_test is None, "target": target_test is None}
    check_apart(files, {domain: path for domain, path in files.items() if drawn[domain]})
    return arrays(
        source_train,
        target_train,
        source_test=source_test,
        target_test=target_test,
        test_share=test_share,
        seed=seed,
        source_name=source_name or files["source"].stem,
        target_name=target_name or files["target"].stem,
        num_classes=num_classes,
        class_names=class_names,
    )


def _read(path, labelled):
    """What to train on, and the test set if there is one."""
    if not path.is_file():
        state = "a folder" if path.is_dir() else "not there"
        raise FileNotFoundError(f"Expected an .npz file. Received: {path}, which is {state}")
    parts, found = _opened(path)
    needed = ["x", "y"] if labelled else ["x"]
    if "x_test" in parts or "y_test" in parts:
        needed += ["x_test", "y_test"]
    lacking = [key for key in needed if key not in parts]
    if lacking:
        raise ValueError(
            f"An .npz file must hold {needed}. Received: {path} with {found}, without {lacking}"
        )
    train = (parts["x"], parts["y"]) if "y" in parts else parts["x"]
    test = (parts["x_test"], parts["y_test"]) if "x_test" in parts else None
    return train, test


def _opened(path):
    """Those arrays of a file that are read, by key, and all its keys."""
    try:
        # Without pickles, a file cannot run code.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            found = sorted(archive.files)
            return {key: archive[key] for key in _KEYS if key in found}, found
    except (zipfile.BadZipFile, zlib.error, EOFError, TypeError, ValueError) as error:
        raise ValueError(f"Expected an .npz file of arrays. Received: {path}") from error
