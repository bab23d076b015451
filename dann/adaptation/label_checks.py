"""Checks of the labels that a network's loss takes."""

import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dann.adaptation.plain_network import pooling
from dann.checks import check_class_range
from dann.data.labels import ENCODE_LABELS_HINT

_OF_NUMBERS = ("ctc", "circle")  # losses of several outputs whose labels are numbers of classes


def check_form(labels: Any, logits: Any, loss: Any) -> None:
    """Raises `ValueError` unless a batch of labels has the form that the loss takes."""
    if isinstance(labels, dict | list | tuple):
        raise ValueError(
            "The labels of a pair are the source's alone, `({'source': xs, 'target': xt}, ys)`. "
            "Labels of the target belong to `validation_data=(xt, yt)`, where no training sees "
            f"them. Received: labels in a {type(labels).__name__} of {len(labels)}"
        )
    if labels is None:
        raise ValueError(
            "The loss needs labels: `fit(pairs, validation_data=(inputs, labels))`, "
            "`evaluate(inputs, labels)`; `predict(inputs)` needs none. Received: inputs without "
            "labels"
        )
    if keras.backend.standardize_dtype(labels.dtype) == "string":
        raise ValueError(f"Labels must be numbers; {ENCODE_LABELS_HINT}. Received: strings")
    _check_positions(labels, logits, loss)
    shape, classes = tuple(labels.shape), logits.shape[-1]
    one_hot = len(shape) == len(logits.shape) and shape[-1] == classes and classes != 1
    sparse = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
    dense = isinstance(loss, keras.losses.CategoricalCrossentropy)
    if (sparse and one_hot) or (dense and not one_hot and len(shape) < len(logits.shape)):
        fitting = "CategoricalCrossentropy" if sparse else "SparseCategoricalCrossentropy"
        kind = "one-hot or soft" if sparse else "numbers of classes"
        raise ValueError(
            f"Labels that are {kind} need another loss: "
            f"`compile(loss=keras.losses.{fitting}(from_logits=True))`. Received: labels of shape "
            f"{shape} with {type(loss).__name__}"
        )
    fewer = len(shape) < len(logits.shape) and classes > 1
    if fewer and not sparse and _is_of_outputs(loss):
        name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
        raise ValueError(
            f"This loss needs labels with a value for each of the {classes} outputs; for numbers "
            "of classes, "
            "`compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))`. "
            f"Received: labels of shape {shape} with {name}"
        )


def _is_of_outputs(loss):
    """Whether it is a loss of Keras that compares labels and outputs of one shape."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    kind = loss if inspect.isfunction(loss) else type(loss)
    return kind.__module__.startswith("keras.") and kind.__name__.lower() not in _OF_NUMBERS


def _check_positions(labels, logits, loss):
    """Raises `ValueError` if labels and logits are not both of examples or both of positions."""
    shape, positions = tuple(labels.shape), tuple(logits.shape[1:-1])
    found = f"Received: labels of shape {shape}, logits of shape {tuple(logits.shape)}"
    axes = len(shape) - 1 - len(positions)  # 1 if labels have one for classes
    if axes < 0:
        pool = pooling(logits.shape)
        raise ValueError(
            "The label head gives logits for each position, so labels must be maps too; for one "
            f"label an example, `keras.Sequential([backbone, keras.layers.{pool}])` as the "
            f"backbone, or a label head that pools. {found}"
        )
    sparse = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
    if axes > 1 or axes and sparse and shape[-1] not in (1, None, logits.shape[-1]):
        raise ValueError(
            "Labels are maps, so the label head must give logits for each position: end the "
            f"backbone before it pools or flattens. {found}"
        )
    sizes = zip(shape[1 : len(positions) + 1], positions, strict=True)
    if any(a != b for a, b in sizes if None not in (a, b)):
        raise ValueError(
            "Labels and logits must have one size: give a `label_head` that ends in it, such as "
            f"one with `keras.layers.UpSampling2D`. {found}"
        )


def check_range(labels: Any, num_classes: int, loss: Any) -> None:
    """Raises `ValueError` unless all labels are numbers of the model's classes.

    It looks at arrays in memory alone, and where the loss takes numbers of classes.
    """
    array = isinstance(labels, np.ndarray) or keras.ops.is_tensor(labels)
    if not (array and isinstance(loss, keras.losses.SparseCategoricalCrossentropy)):
        return
    values = np.asarray(keras.ops.convert_to_numpy(labels))
    if values.dtype.kind in "USO":
        raise ValueError(
            f"Labels must be numbers; {ENCODE_LABELS_HINT}. "
            f"Received: labels such as {values.flat[0]!r}"
        )
    if values.ndim > 1 and values.shape[-1] == num_classes != 1:
        return  # `check_form` says what to do
    values = values[values != loss.ignore_class] if loss.ignore_class is not None else values
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        raise ValueError(
            "Labels must be numbers of classes; for numbers to predict, a label head of one output "
            "and a loss such as 'mse'. Received: labels that are not whole numbers"
        )
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    why = f"as `labels - {low:g}` are" if low > 0 and high - low < num_classes else ""
    check_class_range("Labels", values, num_classes, why=why)


@contextlib.contextmanager
def wrong_labels_told(num_classes: int) -> Iterator[None]:
    """Turns TensorFlow's error about a label that is no class into a `ValueError` of one line.

    It is for the labels of a data set, which nothing checks before the training.
    """
    try:
        yield
    except Exception as error:
        found = re.search(r"label value of (-?\d+) which is outside the valid range", str(error))
        if found is None:
            raise
        try:
            check_class_range("Labels", np.array([int(found[1])]), num_classes)
        except ValueError as told:
            raise told from None
