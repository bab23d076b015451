"""What is exported does what the classifier does, or is not there."""

import importlib.util

import keras
import numpy as np
import pytest
from packable_networks import normalized, spread_statistics, whole_inputs

from dann.deployment import export as exporting
from dann.deployment.export import FORMATS, ExportError, check_format, export
from dann.layers import BinaryConv2D, BinaryDense


@pytest.fixture(scope="module")
def classifier():
    inputs = keras.Input((6, 6, 1))
    x = normalized(keras.layers.Conv2D(4, 3, use_bias=False)(inputs))
    x = normalized(BinaryConv2D(8, 2, use_bias=False)(x))
    x = BinaryDense(3)(keras.layers.Flatten()(x))
    model = spread_statistics(keras.Model(inputs, x))
    # No sum of the first layer is 0 then, which other programs may round to either side.
    model.layers[2].beta.assign(np.full(4, 0.123))
    return model, whole_inputs(model, 16)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_loaded_and_compared(format, classifier, tmp_path):
    model, inputs = classifier
    found = export(model, format, tmp_path / "made", inputs)
    assert (found["examples"], found["agreement"]) == (16, 1.0)
    assert found["difference"] < 1e-4
    assert [path.name for path in (tmp_path / "made").iterdir()] == [FORMATS[format][0]]
    assert found["bytes"] > 100


def test_onnx_is_given_the_type_that_it_takes(tmp_path):
    inputs = keras.Input((6,), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255)(inputs)
    images = np.arange(24, dtype="uint8").reshape(4, 6) * 10
    found = export(keras.Model(inputs, keras.layers.Dense(3)(x)), "onnx", tmp_path, images)
    assert found["difference"] < 1e-5


def test_what_differs_is_not_left_behind(classifier, tmp_path, monkeypatch):
    model, inputs = classifier
    expected = model.predict(inputs, verbose=0)

    def worse(model, path):
        path.write_bytes(b"worse")
        return lambda inputs: expected + np.eye(len(expected), 3, dtype="float32") * 0.5

    (tmp_path / "classifier.dann").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setitem(exporting._EXPORTS, "packed", worse)
        with pytest.raises(ExportError, match="packed does not give .*differ by up to 0.5"):
            export(model, "packed", tmp_path, inputs)
    assert [path.name for path in tmp_path.iterdir()] == ["classifier.dann"]
    assert (tmp_path / "classifier.dann").read_bytes() == b"old"


def test_another_class_is_a_difference_however_near_the_logits(classifier, tmp_path, monkeypatch):
    model, inputs = classifier
    expected = model.predict(inputs, verbose=0)
    turned = np.where(np.arange(len(expected))[:, None] == 7, -expected, expected)
    monkeypatch.setitem(exporting._EXPORTS, "packed", lambda model, path: lambda inputs: turned)
    with pytest.raises(ExportError, match="93.75% of 16 examples get the same class"):
        export(model, "packed", tmp_path, inputs, tolerance=100.0)


@pytest.fixture
def undecided():
    """A classifier, and inputs of which the second brings the sum before the first sign to 0."""
    signs = BinaryDense(2, use_bias=False)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, use_bias=False), signs])
    model.layers[0].set_weights([np.array([[1, 1, 1], [-1, 1, 1]])])
    signs.set_weights([np.array([[1, -1], [1, -1], [-1, 1]])])
    inputs = np.array([[5, 2], [3, 3], [1, 0], [0, 4]], "float32")
    return model, inputs


def with_turned_sign(model, example):
    """In place of an export: as the model, but with the other sign in one example."""

    def run(inputs):
        signs = np.where(inputs @ model.layers[0].get_weights()[0] >= 0, 1, -1)
        signs[example, 0] *= -1
        return (signs @ model.layers[1].get_weights()[0]).astype("float32")

    return run


def test_a_sum_within_rounding_of_zero_may_fall_to_either_side(undecided, tmp_path, monkeypatch):
    model, inputs = undecided

    def rounded(model, path):
        path.touch()
        return with_turned_sign(model, 1)

    monkeypatch.setitem(exporting._EXPORTS, "packed", rounded)
    found = export(model, "packed", tmp_path, inputs)
    assert (found["examples"], found["rounded"]) == (4, 1)
    assert (found["agreement"], found["difference"]) == (0.75, 0.0)


@pytest.mark.parametrize("example", [0, 2, 3])
def test_a_sum_away_from_zero_may_not(example, undecided, tmp_path, monkeypatch):
    model, inputs = undecided
    wrong = with_turned_sign(model, example)
    monkeypatch.setitem(exporting._EXPORTS, "packed", lambda model, path: wrong)
    with pytest.raises(ExportError, match=f"in example {example} it is more than rounding"):
        export(model, "packed", tmp_path, inputs)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["inputs", "logits"])
def test_what_is_not_finite_is_not_taken_for_rounding(
    value, where, undecided, tmp_path, monkeypatch
):
    model, inputs = undecided
    if where == "inputs":
        inputs = np.where(np.arange(4)[:, None] == 2, np.float32(value), inputs)[2:]
    logits = np.full((len(inputs), 2), value if where == "logits" else 1, "float32")
    monkeypatch.setitem(exporting._EXPORTS, "packed", lambda model, path: lambda inputs: logits)
    with pytest.raises(ExportError, match="in example 0 it is more than rounding"):
        export(model, "packed", tmp_path, inputs)


@pytest.mark.parametrize(
    ("format", "message"),
    [("packed", "a folder, by a file"), ("saved_model", "a file, by a folder")],
)
def test_a_folder_is_not_replaced_by_a_file(format, message, classifier, tmp_path):
    model, inputs = classifier
    place = tmp_path / FORMATS[format][0]
    if format == "packed":
        place.mkdir()
        (place / "notes").write_text("mine")
    else:
        place.write_text("mine")
    with pytest.raises(FileExistsError, match=message):
        export(model, format, tmp_path, inputs)
    assert (place / "notes" if format == "packed" else place).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_unknown_formats_and_missing_packages_are_told(classifier, tmp_path, monkeypatch):
    model, inputs = classifier
    with pytest.raises(ValueError, match="format must be one of packed, .*Received: gguf"):
        export(model, "gguf", tmp_path, inputs)
    with pytest.raises(ValueError, match="inputs to compare on"):
        export(model, "packed", tmp_path, inputs[:0])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install tensorflow ai-edge-litert"):
        check_format("litert")
