"""Exports of a classifier to the formats that other programs load."""

import functools
import importlib.util
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from dann.adaptation.prediction import check_finite_outputs, predict
from dann.checks import check_choice, check_number
from dann.deployment.c_file import compile_program, to_c
from dann.deployment.packing import build_program, get_inputs, get_network, pack
from dann.deployment.runtime import load
from dann.layers.batch_normalization import with_keras_batch_normalization


def export(
    classifier: keras.Model,
    path: str | os.PathLike,
    format: str,
    inputs: np.ndarray,
    tolerance: float = 1e-3,
) -> dict[str, Any]:
    """Exports a classifier, loads the exported file, and compares its logits on examples.

    An existing file at `path` is replaced only after the comparison has succeeded. In a network
    with signs, rounding matters: a float sum close to the threshold of a sign may get the other
    sign if its terms are added in another order. Therefore up to 1% of the examples, and at least
    one, may have different logits. An untrained network may differ in more examples: with the
    initial statistics of batch normalization, sums of signs are exactly 0, and converters that fold
    it into the kernel change them to plus or minus epsilon. Train the network first.

    Args:
        classifier: A built model, or a method of `dann.adaptation`, whose `classifier` is exported.
        path: Path of the file. An existing file, or the folder of a SavedModel, is replaced.
        format: One of `FORMATS`: `"packed"`, `"c"`, `"keras"`, `"saved_model"`, `"litert"` or
            `"onnx"`. The last three use Keras's own export. A `"keras"` file has
            `keras.layers.BatchNormalization` instead of `dann.layers.BatchNormalization`, so it
            loads without `dann` unless the network has other layers of `dann`.
        inputs: Inputs `(n, ...)` for the comparison.
        tolerance: Largest allowed difference of logits, as a share of the largest logit of the
            classifier. Defaults to `1e-3`.

    Returns:
        A dict of `path`; the size in `bytes`; the number of `examples`; `different`, the number of
        examples with another class or different logits; and `difference`, the largest logit
        difference among the examples that match.

    Raises:
        ImportError: If a package that the format requires is missing.
        OSError: If the format is `"c"` and there is no working compiler, `cc` or the compiler in
            `$CC`; `to_c` does not need a compiler.
        PackError: If a layer cannot be packed.
        ValueError: If too many examples have another class or different logits; logits are NaN or
            infinite; the classifier has several inputs or outputs; or `path` is a file or folder
            that this format does not write.
    """
    network, path = get_network(classifier), pathlib.Path(path)
    _, write = FORMATS[check_choice("format", format, FORMATS)]
    check_packages(format)
    check_number("tolerance", tolerance, low=0)
    model_file = path / "saved_model.pb" if format == "saved_model" else path
    if path.exists() and not model_file.is_file():
        raise ValueError(
            f"Expected a new path, or the path of an earlier export with format={format}. "
            f"Received: path='{path}'. Choose another path"
        )
    counts = len(get_inputs(network)), len(getattr(network, "outputs", [network]))
    if counts != (1, 1):
        raise ValueError(f"Expected 1 input and 1 output. Received: {counts[0]} and {counts[1]}")
    inputs = np.asarray(inputs, get_inputs(network)[0].dtype)
    # Before the export, because Keras exports to ONNX only models that were called.
    expected = check_finite_outputs("logits", predict(network, inputs))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
        draft = pathlib.Path(folder, f"draft{path.suffix}")
        with warnings.catch_warnings(action="ignore"):  # deprecations within the converters
            run = write(network, draft)
        outputs, limit = run(inputs), tolerance * np.abs(expected).max(initial=1.0)
        is_equal = np.isclose(outputs, expected, rtol=0, atol=limit).all(axis=-1)
        is_equal &= outputs.argmax(axis=-1) == expected.argmax(axis=-1)
        is_equal = is_equal.reshape(len(is_equal), -1).all(axis=1)  # (examples,)
        examples, different = len(is_equal), int((~is_equal).sum())
        if different > max(1, 0.01 * examples):
            raise ValueError(
                f"Expected format={format} to reproduce the classes, and the logits up to "
                f"{tolerance} times the largest logit. Received: {different} of {examples} "
                "examples that differ. If batch normalization has its initial statistics, train it"
            )
        if path.is_dir():  # a folder cannot be renamed over another folder
            path.rename(draft.with_name("old"))
        draft.replace(path)
    size = sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    return {
        "path": str(path),
        "bytes": size,
        "examples": examples,
        "different": different,
        "difference": float(np.abs(outputs - expected)[is_equal].max(initial=0.0)),
    }


def check_packages(format: str) -> None:
    """Raises an `ImportError` that names the `pip` command if a package of a format is missing.

    The converter to ONNX that Keras calls depends on the backend.
    """
    converter = {"tensorflow": "tf2onnx", "jax": "jax2onnx"}.get(keras.backend.backend(), "onnx")
    packages = {"litert": ["ai_edge_litert"], "onnx": ["onnxruntime", converter]}.get(format, [])
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        names = " ".join(missing).replace("_", "-")
        raise ImportError(f"format={format} needs `pip install {names}`")


def _packed(model, path):
    pack(model, path)
    return load(path).predict


def _c(model, path):
    to_c(model, path)
    return compile_program(build_program(model), path.read_bytes(), path.read_text).predict


def _keras(model, path):
    with_keras_batch_normalization(model).save(path)
    return functools.partial(predict, keras.saving.load_model(path))


def _saved_model(model, path):
    import tensorflow as tf

    model.export(path, format="tf_saved_model", verbose=False)
    model = tf.saved_model.load(str(path))
    return lambda inputs: model.serve(inputs).numpy()


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
    entry, *constants = session.get_inputs()
    if constants:
        raise ValueError(
            "Expected an ONNX file with one input. Received: more, because Keras writes constants "
            f"such as {constants[0].name!r} as inputs on TensorFlow. Use format=c or saved_model"
        )
    return lambda inputs: session.run(None, {entry.name: inputs})[0]


# By name: the suffix of the file, and a function that writes the file and returns its `predict`.
FORMATS: Mapping[str, tuple[str, Callable[[keras.Model, pathlib.Path], Callable]]] = {
    "packed": (".dann", _packed),
    "c": (".c", _c),
    "keras": (".keras", _keras),
    "saved_model": ("", _saved_model),
    "litert": (".tflite", _litert),
    "onnx": (".onnx", _onnx),
}
