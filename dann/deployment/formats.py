"""A run's classifier in the formats that other programs load."""

import os
import pathlib
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from dann.checks import check_choice
from dann.deployment.litert import LiteRTModel, litert_file
from dann.deployment.packed_model import load
from dann.deployment.packing import pack
from dann.installed import is_installed
from dann.registry import Registry

# A writer takes a model and a path, and returns the function that runs the file. Its facts:
# the name on disk, the modules that must be importable, and by backend those of Keras's export,
# which has no entry for a backend that it does not write from.
FORMATS: Registry[Callable[[keras.Model, pathlib.Path], Callable[[Any], Any]]] = Registry("format")
_NEARBY = 64  # inputs of either kind
# The error of a sum of n terms in single precision is up to n / 2^24 of the sum of their absolute
# values, if one is added after the other: 5e-5 for n = 784.
_REACH = 1e-5


class ExportError(ValueError):
    """The export gives other logits than the classifier."""


def check_format(format: str) -> str:
    """Returns the format if it is known and its packages are installed.

    Raises:
        ValueError: If it is unknown, or Keras does not write it from this backend.
        ImportError: If a package is missing.
    """
    facts = FORMATS.entry(check_choice("format", format, FORMATS)).facts
    needs, backend = list(facts["needs"]), keras.backend.backend()
    by_backend = facts.get("by_backend")
    if by_backend is not None and backend not in by_backend:
        raise ValueError(
            f"format={format} needs KERAS_BACKEND={' or '.join(by_backend)}, which can load a "
            f"classifier of any other. Received: KERAS_BACKEND={backend}"
        )
    needs += by_backend[backend] if by_backend else ()
    missing = [name for name in needs if not is_installed(name)]
    if missing:
        names = " ".join(missing).replace("_", "-")
        raise ImportError(
            f"format={format} needs packages that are missing. "
            f"Install them with `pip install {names}`"
        )
    return format


def export(
    model: keras.Model,
    format: str,
    directory: str | os.PathLike,
    inputs: np.ndarray,
    tolerance: float = 1e-3,
) -> dict[str, Any]:
    """Exports a classifier, loads it again, and compares its logits on data.

    It writes a draft beside the final place and moves it there once it has passed the comparison.
    So no half-written or wrong export is ever in that place.

    If a float sum lies within rounding of a sign's threshold, the order of its terms decides the
    sign. That order differs between programs, and in Keras between batch sizes. An example whose
    logits differ for this reason passes and is counted, up to 1% of the examples or 3. Such an
    example passes if Keras gives the export's logits, within `tolerance`, and its class on one of
    128 nearby inputs. In 64 of these each number changes by itself, in the other 64 all numbers
    change by the same amount, by up to 1e-5 of the largest input along the last axis. Integer
    inputs have no such neighbours.

    Args:
        model: The classifier.
        format: One of `FORMATS`.
        directory: Where to write; created if it does not exist.
        inputs: Inputs `(n, ...)` to compare on, at least one; finite.
        tolerance: Largest difference of logits, as a share of the classifier's largest logit.

    Returns:
        `path`; `bytes`; `examples`; `agreement`, the share of examples with the same class;
        `rounded`, how many examples differ by rounding alone; and `difference`, the largest
        difference of a logit of the other examples.

    Raises:
        ExportError: If a class differs, or a logit by more than `tolerance`, and rounding does not
            explain it.
        ImportError: If a package is missing.
        FileExistsError: If a file would replace a folder, or a folder a file.
        NotADirectoryError: If `directory` is a file.
        ValueError: If the format is unknown, there are no inputs, one is not finite, or a layer
            cannot be exported.
    """
    inputs = np.asarray(inputs)
    if len(inputs) == 0:
        raise ValueError("There must be inputs to compare on. Received: none")
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        raise ValueError("Inputs to compare on must be finite. Received: NaN or inf among them")
    name = FORMATS.entry(check_format(format)).facts["file"]
    directory = pathlib.Path(directory)
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"Exports go into a folder. Received: {directory}, a file")
    directory.mkdir(parents=True, exist_ok=True)
    # The draft keeps the suffix, because some writers take the format from it.
    place, draft = directory / name, directory / f"unchecked_{name}"
    # First, because Keras exports to ONNX only a model that was called.
    expected = np.asarray(model.predict(inputs, verbose=0))  # pyright: ignore
    _remove(draft)  # an export that was killed leaves one
    try:
        run = FORMATS[format](model, draft)
        result = _compare(model, inputs, expected, np.asarray(run(inputs)), tolerance, format)
        _check_place(place, draft)
        _remove(place)
        draft.replace(place)
    finally:
        _remove(draft)
    return {"path": str(place), "bytes": _size(place), **result}


def _check_place(place, draft):
    """Raises `FileExistsError` if a file would replace a folder, or a folder a file."""
    if place.exists() and place.is_dir() != draft.is_dir():
        kinds = ("a folder", "a file") if place.is_dir() else ("a file", "a folder")
        raise FileExistsError(f"Exporting would replace {place}, {kinds[0]}, by {kinds[1]}")


def _compare(model, inputs, expected, given, tolerance, format):
    if given.shape != expected.shape:
        raise ExportError(
            f"The classifier as {format} must give logits {expected.shape}, as it did in Keras. "
            f"Received: {given.shape}"
        )
    limit = tolerance * float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
    differences = np.abs(given - expected).reshape(len(inputs), -1).max(axis=1)
    same = _same_class(given, expected)
    alike = (differences <= limit) & same
    places = np.flatnonzero(~alike)
    most = max(3, len(inputs) // 100)
    by_rounding = len(places) <= most and all(
        _is_rounding(model, inputs, place, given[place], limit) for place in places
    )
    if not by_rounding:
        raise ExportError(
            f"The classifier as {format} does not give the outputs of Keras: {same.mean():.2%} of "
            f"{len(inputs)} examples get the same class, and logits differ by up to "
            f"{differences.max():.3g}; {limit:.3g} is allowed. Rounding does not explain this: it "
            f"may decide in at most {most} examples, here {len(places)} differ; and Keras must "
            "give the export's logits on slightly changed inputs"
        )
    return {
        "examples": len(inputs),
        "agreement": float(same.mean()),
        "difference": float(differences[alike].max(initial=0.0)),
        "rounded": len(places),
    }


def _same_class(given, expected):
    same = given.argmax(axis=-1) == expected.argmax(axis=-1)
    return same.reshape(len(same), -1).all(axis=1)


def _is_rounding(model, inputs, place, logits, limit):
    """Whether the model gives these logits and their class on an input near the example.

    One number added to all values moves equal sums together, as on a plain background.
    """
    entries = keras.tree.flatten(getattr(model, "inputs", None) or [])
    if not all(keras.backend.is_float_dtype(entry.dtype) for entry in entries):
        return False  # whole numbers have no neighbours
    example = np.asarray(inputs[place], "float64")
    reach = _REACH * np.abs(inputs.astype("float64")).max(axis=tuple(range(inputs.ndim - 1)))
    rng = np.random.default_rng(0)
    each = rng.uniform(-1, 1, (_NEARBY, *example.shape))
    together = np.linspace(-1, 1, _NEARBY).reshape(-1, *[1] * example.ndim)
    nearby = np.concatenate([example + reach * each, example + reach * together])
    found = model.predict(nearby.astype("float32"), verbose=0)
    near = (np.abs(found - logits) <= limit).reshape(len(found), -1).all(axis=1)
    return bool(np.any(near & _same_class(found, logits[None])))


@FORMATS.register(
    "packed", summary="One bit a binary weight; NumPy runs it.", file="classifier.dann", needs=()
)
def _packed(model, path):
    pack(model, path)
    return load(path).predict


@FORMATS.register("keras", summary="Keras's own file.", file="classifier.keras", needs=())
def _keras(model, path):
    model.save(path)
    again: Any = keras.models.load_model(path, safe_mode=True)
    return lambda inputs: again.predict(inputs, verbose=0)


@FORMATS.register(
    "saved_model",
    summary="A folder for TensorFlow.",
    file="saved_model",
    needs=("tensorflow",),
    by_backend={"tensorflow": (), "jax": ()},
)
def _saved_model(model, path):
    import tensorflow as tf

    model.export(path, format="tf_saved_model", verbose=False)
    again = tf.saved_model.load(str(path))
    return lambda inputs: again.serve(np.asarray(inputs, "float32")).numpy()


@FORMATS.register(
    "litert",
    summary="A file for LiteRT, in float32.",
    file="classifier.tflite",
    needs=("tensorflow", "ai_edge_litert"),
    by_backend={"tensorflow": (), "jax": ()},
)
def _litert(model, path):
    path.write_bytes(litert_file(model))
    return LiteRTModel(path.read_bytes()).predict


@FORMATS.register(
    "onnx",
    summary="A file for ONNX.",
    file="classifier.onnx",
    needs=("onnxruntime",),
    by_backend={
        "tensorflow": ("tensorflow", "tf2onnx"),
        "jax": ("tensorflow", "tf2onnx"),
        "torch": ("onnx",),
    },
)
def _onnx(model, path):
    import onnxruntime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tf2onnx asks NumPy for names that are gone
        model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    name = entry.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(name, name)
    return lambda inputs: session.run(None, {entry.name: np.asarray(inputs, dtype)})[0]


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _size(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)
