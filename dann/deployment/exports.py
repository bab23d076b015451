"""A classifier in the formats that other programs load."""

import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from dann.checks import check_choice
from dann.deployment.c_file import compiled, to_c
from dann.deployment.packing import network_of, pack, program_of
from dann.deployment.runtime import load


def export(
    classifier: keras.Model,
    path: str | os.PathLike,
    format: str,
    inputs: np.ndarray,
    tolerance: float = 1e-3,
) -> dict[str, Any]:
    """Writes a classifier in another format, loads it again, and compares its logits on data.

    What was at `path` stays until the comparison is done, and if it refuses. In a network with
    signs rounding may decide: a float sum next to a sign's threshold gets the other sign where its
    terms are added in another order. So up to 1% of the examples, or 1, may get other logits. An
    untrained network may differ in more: where batch normalization has fresh statistics, sums of
    signs are exactly 0, and converters that fold it into the kernel turn them into plus or minus
    epsilon. Train it first.

    Args:
        classifier: A built model, or a method of `dann.adaptation`, whose `classifier` it takes.
        path: Where to write; it replaces a file, or the folder of a SavedModel, that is there.
        format: One of `FORMATS`: `"packed"`, `"c"`, `"saved_model"`, `"litert"` or `"onnx"`, the
            last three by Keras's own export.
        inputs: Inputs `(n, ...)` to compare on.
        tolerance: Largest difference of logits, as a share of the classifier's largest logit.

    Returns:
        `path`; `bytes`; `examples`; `different`, how many of them get another class or other
        logits; and `difference`, the largest difference of a logit of the others.

    Raises:
        ImportError: If a package is missing that the format needs.
        OSError: If no compiler, `cc` or the one in `CC`, works for `"c"`; `to_c` needs none.
        PackError: If a layer cannot be packed.
        ValueError: If too many examples get another class, or other logits; or if what is at `path`
            is not to be replaced.
    """
    network, path = network_of(classifier), pathlib.Path(path)
    _, write = FORMATS[check_choice("format", format, FORMATS)]
    model_file = path / "saved_model.pb" if format == "saved_model" else path
    if path.exists() and not model_file.is_file():
        raise ValueError(f"format={format} replaces only what it writes. Received: path='{path}'")
    entries = getattr(network, "inputs", None)  # a subclassed model has none
    inputs = np.asarray(inputs, entries[0].dtype if entries else "float32")
    # First, because Keras exports to ONNX only a model that was called.
    expected: Any = network.predict(inputs, verbose=0)  # pyright: ignore
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
        draft = pathlib.Path(folder, f"new{path.suffix}")
        with warnings.catch_warnings(action="ignore"):  # the converters call what will move
            run = write(network, draft)
        given, limit = run(inputs), tolerance * np.abs(expected).max(initial=1.0)
        same = np.isclose(given, expected, rtol=0, atol=limit, equal_nan=True).all(axis=-1)
        same &= given.argmax(axis=-1) == expected.argmax(axis=-1)
        same = same.reshape(len(same), -1).all(axis=1)
        different = len(same) - int(same.sum())
        if different > max(1, 0.01 * len(same)):
            raise ValueError(
                f"Of the classifier as {format}, {different} of {len(same)} examples get another "
                f"class than by Keras, or logits that differ by over {tolerance} of the largest; "
                "train it first, if its batch normalization has fresh statistics"
            )
        if path.is_dir():  # a folder is not renamed over another
            path.rename(draft.with_name("old"))
        draft.replace(path)
    size = sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    found = {"path": str(path), "bytes": size, "examples": len(same), "different": different}
    return {**found, "difference": float(np.abs(given - expected)[same].max(initial=0.0))}


def _packed(model, path):
    pack(model, path)
    return load(path).predict


def _c(model, path):
    to_c(model, path)
    return compiled(program_of(model), path.read_bytes(), path.read_text).predict


def _saved_model(model, path):
    import tensorflow as tf

    model.export(path, format="tf_saved_model", verbose=False)
    again = tf.saved_model.load(str(path))
    return lambda inputs: again.serve(inputs).numpy()


def _litert(model, path):
    from ai_edge_litert.interpreter import Interpreter

    model.export(path, format="litert", verbose=False)
    runner = Interpreter(str(path)).get_signature_runner()
    (name,) = runner.get_input_details()
    return lambda inputs: next(iter(runner(**{name: inputs}).values()))


def _onnx(model, path):
    import onnxruntime

    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    return lambda inputs: session.run(None, {entry.name: inputs})[0]


# By name: how the file's name ends, and the function that writes it and returns what runs it.
FORMATS: Mapping[str, tuple[str, Callable[[keras.Model, pathlib.Path], Callable]]] = {
    "packed": (".dann", _packed),
    "c": (".c", _c),
    "saved_model": ("", _saved_model),
    "litert": (".tflite", _litert),
    "onnx": (".onnx", _onnx),
}
