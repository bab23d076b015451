"""The reader of `.npz` files."""

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from dann.data.arrays import arrays
from dann.data.domain_pair import DomainPair
from dann.data.readers import READERS
from dann.data.splits import check_apart, same_file

_KEYS = ("x", "y", "x_test", "y_test")


@READERS.register("npz")
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

    A file holds the inputs `x` and the labels `y`, and `x_test` and `y_test` if its test set is not
    to be drawn. A target may lack labels. Other keys are ignored. What the arrays may be, how test
    sets are drawn and the other arguments: see `dann.data.arrays`.

    Args:
        source: Path of the source's file.
        target: Path of the target's file.
        source_name: Name of the source. Defaults to the file's name.
        target_name: Name of the target. Defaults to the file's name.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file is not a `.npz` file or lacks a key, its arrays are empty or do not
            fit, or both domains are one file and a test set would be drawn from it.
    """
    paths = {"source": pathlib.Path(source), "target": pathlib.Path(target)}
    paths = {domain: path.expanduser() for domain, path in paths.items()}
    parts = {domain: _read(path, domain) for domain, path in paths.items()}
    drawn = {domain: path for domain, path in paths.items() if parts[domain][1] is None}
    check_apart(paths, drawn, same_file, "files")
    return arrays(
        parts["source"][0],
        parts["target"][0],
        source_test=parts["source"][1],
        target_test=parts["target"][1],
        test_share=test_share,
        seed=seed,
        source_name=source_name or paths["source"].stem,
        target_name=target_name or paths["target"].stem,
        num_classes=num_classes,
        class_names=class_names,
    )


def _read(path, domain):
    """The training set, and the test set or `None`; labels of a target may be `None`."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            found = {key: file[key] for key in _KEYS if key in file}
    except OSError:
        raise
    except Exception as error:  # a broken archive can raise anything
        raise ValueError(f"Expected an .npz file of arrays. Received: {path}") from error
    needed = {"x"} | ({"x_test"} if "y_test" in found else set())
    if domain == "source":
        needed |= {"y"} | ({"y_test"} if "x_test" in found else set())
    if not needed <= found.keys():
        raise ValueError(
            f"The {domain}'s file must hold {sorted(needed)}. Received: {path} with {list(found)}"
        )
    test = (found["x_test"], found.get("y_test")) if "x_test" in found else None
    return (found["x"], found.get("y")), test
