"""Labels of the parts of a pair: integers, names of classes, or numbers for regression."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dann.checks import check_choice
from dann.data.splits import UNKNOWN, is_known

NAME_CLASSES = (
    "If a source lacks some of the classes, pass the names of all classes as `class_names` "
    "(data.class_names)"
)


def read_labels(name: str, labels: np.ndarray) -> np.ndarray:
    """Returns labels as integers, strings or floats."""
    is_text = labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.flat)
    if not is_text and labels.dtype.kind not in "biuf":
        raise ValueError(
            f"Expected labels of the {name} to be integers, strings or, for regression, numbers. "
            f"Received: {labels.dtype}, such as {labels[:3].tolist()}"
        )
    return labels if labels.dtype.kind == "f" else labels.astype(str if is_text else np.int64)


def is_regression_task(
    tables: Mapping[str, Any], task: str | None, class_names: Sequence[str] | None
) -> bool:
    """Returns whether labels are numbers, as in regression; prints a line if no task is given."""
    check_choice("task", task, (None, "classification", "regression"))
    labels = np.concatenate([t["labels"] for name, t in tables.items() if name[:6] == "source"])
    if task is None and class_names is None and labels.dtype.kind in "fU":
        try:
            fractions = labels.astype(float) % 1
        except ValueError:  # names of classes
            fractions = np.zeros(1)
        if (fractions > 0).any():
            print(
                f"Some labels have fractions, such as {labels[fractions > 0][0]}: task=regression"
            )
            return True
    for name, table in tables.items():
        if task != "regression" and table["labels"].dtype.kind == "f":
            missing = np.count_nonzero(~np.isfinite(table["labels"]))
            received = f"floats, {missing} of them NaN or infinite" if missing else "floats"
            raise ValueError(
                f"Expected labels of the {name} to be integers or strings. Received: {received}. "
                "For classes drop missing labels (in the target, set them to -1) and use "
                "`labels.astype(int)`; for regression use `task='regression'` (data.task)"
            )
    return task == "regression"


def convert_to_floats(tables: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Converts all labels to float32; unknown labels of the target become NaN."""
    for name, table in tables.items():
        labels = table["labels"]
        if parts[name].get("labels") is None:
            labels = np.full(len(labels), np.nan)
        try:
            texts = labels.dtype.kind == "U"
            labels = np.where(labels == "", "nan", labels) if texts else labels
            table["labels"] = labels.astype(np.float32)
        except ValueError as error:
            raise ValueError(
                f"Expected labels of the {name} to be numbers, for regression. Received: {error}"
            ) from None


def encode_classes(tables: Mapping[str, Any], class_names: Any) -> tuple[str, ...] | None:
    """Converts all labels to integers; returns the names of the classes, if they have names."""
    if any(table["labels"].dtype.kind == "U" for table in tables.values()):
        if class_names is None:  # the target's labels do not determine the classes
            sources = [table for name, table in tables.items() if name.startswith("source")]
            labels = np.concatenate([table["labels"] for table in sources])
            class_names = _sort_names({*labels.tolist()} - {""})
        numbers: dict[Any, int] = {"": UNKNOWN, UNKNOWN: UNKNOWN}
        numbers |= {name: number for number, name in enumerate(class_names)}
        for part, table in tables.items():
            labels = table["labels"].tolist()
            if unexpected := sorted({str(label) for label in set(labels) - numbers.keys()}):
                names = {str(name).lower() for name in class_names}
                is_case = any(name.lower() in names for name in unexpected)
                advice = "Write each class in the same case" if is_case else NAME_CLASSES
                raise ValueError(
                    f"Expected labels of the {part} to be among {list(class_names)}. Received: "
                    f"{unexpected}. {advice}"
                )
            table["labels"] = np.array([numbers[label] for label in labels], np.int64)
    return None if class_names is None else tuple(class_names)


def _sort_names(names):
    """Sorts names as numbers if all are numbers, else as text."""
    names = sorted(names)  # first, so that "1" and "01" have a definite order
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def get_known_labels(table: Mapping[str, Any]) -> np.ndarray | None:
    """Returns the labels, or `None` if all are unknown."""
    labels = table["labels"]
    return labels if is_known(labels).any() else None
