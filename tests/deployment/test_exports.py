"""Exports compute the logits of the classifier, or are not written."""

import shutil

import keras
import numpy as np
import pytest
from packable_networks import integer_inputs, logits, normalize, spread_statistics

from dann.deployment import PackError, c_file, export, exports, load, pack, to_c
from dann.deployment.exports import FORMATS
from dann.layers import BinaryConv2D, BinaryDense


@pytest.fixture(scope="module")
def classifier():
    inputs = keras.Input((6, 6, 1))
    x = normalize(keras.layers.Conv2D(4, 3, use_bias=False)(inputs))
    x = normalize(BinaryConv2D(8, 2, use_bias=False)(x))
    x = BinaryDense(3)(keras.layers.Flatten()(x))
    model = spread_statistics(keras.Model(inputs, x))
    # No sum of the first layer is 0, which other programs could round to either side.
    model.layers[2].beta.assign(np.full(4, 0.123))
    return model, integer_inputs(model, 16)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_compared_and_written(format, classifier, tmp_path):
    model, inputs = classifier
    path = tmp_path / f"new/classifier{FORMATS[format][0]}"
    summary = export(model, path, format, inputs)
    assert (summary["examples"], summary["different"]) == (16, 0)
    assert summary["difference"] < 1e-4
    assert summary["bytes"] > 100
    assert list(map(str, path.parent.iterdir())) == [str(path)] == [summary["path"]]


def test_unsuitable_classifiers_are_refused(tmp_path):
    normalization, examples = keras.layers.Normalization(), np.eye(4, dtype="float32")
    normalization.adapt(examples)
    inputs, nan = [keras.Input((4,)), keras.Input((4,))], keras.initializers.Constant(np.nan)
    diverged = keras.Sequential([inputs[0], keras.layers.Dense(3, kernel_initializer=nan)])
    constants = keras.Sequential([inputs[0], normalization, keras.layers.Dense(3)])
    two_inputs = keras.Model(inputs, keras.layers.Add()(inputs))
    for model, words in (
        (constants, "Use format=c or saved_model"),  # which Keras writes as inputs
        (diverged, "finite logits. Received: NaN or infinite values for 4 of 4"),
        (two_inputs, "1 input and 1 output. Received: 2 and 1"),
    ):
        with pytest.raises(ValueError, match=words):
            export(model, tmp_path / "model.onnx", "onnx", examples)
    with pytest.raises(ValueError, match=">= 0. Received: tolerance=-1"):
        export(constants, tmp_path / "model.c", "c", examples, tolerance=-1)
    with pytest.raises(PackError, match="finite weights"):
        to_c(diverged, tmp_path / "model.c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("negated", "shift", "different"), [(0, 0.5, 16), (2, 0, 2), (1, 0, 1)])
def test_export_with_several_differences_replaces_nothing(
    negated, shift, different, classifier, tmp_path, monkeypatch
):
    model, inputs = classifier
    outputs = model.predict(inputs, verbose=0) + shift
    outputs[:negated] *= -1

    def write(model, path):
        path.write_bytes(b"worse")
        return lambda inputs: outputs

    monkeypatch.setattr(exports, "FORMATS", {"packed": (".dann", write)})
    (path := tmp_path / "classifier.dann").write_bytes(b"old")
    if different == 1:
        summary = export(model, path, "packed", inputs)
        assert (summary["different"], summary["difference"]) == (1, 0.0)
    else:
        with pytest.raises(ValueError, match=f"{different} of 16 examples"):
            export(model, path, "packed", inputs)
    assert path.read_bytes() == (b"worse" if different == 1 else b"old")
    assert list(tmp_path.iterdir()) == [path]


def read_files(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_foreign_files_and_folders_are_not_replaced(classifier, tmp_path):
    (tmp_path / "folder/inner").mkdir(parents=True)
    for name in ("folder/notes.txt", "file.dann"):
        (tmp_path / name).write_text("foreign")
    before = read_files(tmp_path)
    for name, format in (("folder", "packed"), ("file.dann", "saved_model")):
        with pytest.raises(ValueError, match=f"earlier export with format={format}.*{name}"):
            export(classifier[0], tmp_path / name, format, classifier[1])
    assert read_files(tmp_path) == before


def test_missing_compiler_or_package_is_named(classifier, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    for format, words in (("c", "^.*'/nonexistent'.*$"), ("onnx", "install onnxruntime onnx`")):
        with pytest.raises((OSError, ImportError), match=words):
            export(classifier[0], tmp_path / f"net.{format}", format, classifier[1])
    assert list(tmp_path.iterdir()) == []


needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def make_packed_file(tmp_path):
    model = keras.Sequential([keras.Input((70,)), BinaryDense(3, use_bias=False)])
    pack(model, tmp_path / "model.dann")
    inputs = integer_inputs(model, 5)
    return tmp_path / "model.dann", inputs, logits(model, inputs)


@needs_compiler
def test_packed_file_is_compiled_once(tmp_path, monkeypatch):
    path, inputs, expected = make_packed_file(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.testing.assert_array_equal(load(path).predict(inputs, batch_size=2), expected)
    (library,) = (tmp_path / "cache/dann").iterdir()
    with monkeypatch.context() as context:
        context.setattr(c_file, "generate_c", None)  # the C is not generated again
        np.testing.assert_array_equal(load(path).predict(inputs), expected)
        assert load(path).predict(inputs[:0]).shape == (0, 3)
    path, inputs, new_expected = make_packed_file(tmp_path)
    assert (new_expected != expected).any()
    np.testing.assert_array_equal(load(path).predict(inputs), new_expected)
    assert len(list(library.parent.iterdir())) == 2


@pytest.mark.parametrize(
    ("compiler", "reason"), [("no-such-compiler", "No such file"), ("false", "fails with 1")]
)
def test_numpy_runs_with_warning_without_compiler(compiler, reason, tmp_path, monkeypatch):
    path, inputs, expected = make_packed_file(tmp_path)
    monkeypatch.setenv("CC", compiler)
    with pytest.warns(UserWarning, match=f"NumPy runs.*{reason}") as warnings:
        model = load(path)
    np.testing.assert_array_equal(model.predict(inputs, batch_size=1), expected)
    assert len(warnings) == 1
