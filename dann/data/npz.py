"""The reader of `.npz` files."""

import os
import pathlib
from collections.abc import Sequence

from dann.checks import check_number
from dann.data.array_archive import read_archive
from dann.data.arrays import arrays
from dann.data.domain_pair import DomainPair
from dann.data.readers import READERS
from dann.data.splits import check_files_apart

_KEYS = ("x", "y", "x_test", "y_test")


@READERS.register(
    "npz",
    summary="Two `.npz` files of arrays `x` and `y`.",
    reads="`.npz` files: images, time series, features",
    command="data=npz data.source=a.npz data.target=b.npz network=time_series",
    config="npz",
)
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
    max_gigabytes: float = 8.0,
) -> DomainPair:
    """Pairs two `.npz` files, as `numpy.savez(path, x=inputs, y=labels)` writes them.

    A file holds the inputs `x` and the labels `y`, and `x_test` and `y_test` if its test set is not
    to be drawn. A target with a test set may lack `y`. Other keys are ignored. What the arrays may
    be, how test sets are drawn and the other arguments: see `dann.data.arrays`.

    Args:
        source: Path of the source's file.
        target: Path of the target's file.
        source_name: Name of the source. Defaults to the file's name.
        target_name: Name of the target. Defaults to the file's name.
        max_gigabytes: The most that the arrays of a file may take of memory, in 10^9 bytes; a small
            file may be the compressed form of huge arrays. Defaults to `8.0`.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file is not a `.npz` file or lacks a key, its arrays are too large,
            are empty or do not fit, or both domains are one file and a test set would be drawn from
            it.
    """
    files = {"source": pathlib.Path(source), "target": pathlib.Path(target)}
    files = {domain: path.expanduser() for domain, path in files.items()}
    check_number("max_gigabytes", max_gigabytes, 0, above=True)
    source_train, source_test = _read(files["source"], True, max_gigabytes)
    target_train, target_test = _read(files["target"], False, max_gigabytes)
    drawn = {"source": source_test is None, "target": target_test is None}
    check_files_apart(files, {domain: path for domain, path in files.items() if drawn[domain]})
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


def _read(path, labelled, max_gigabytes):
    """The training set, and the test set or `None`."""
    if not path.is_file():
        state = "a folder" if path.is_dir() else "not there"
        raise FileNotFoundError(f"Expected an .npz file. Received: {path}, which is {state}")
    parts, found = read_archive(path, _KEYS, max_gigabytes)
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
