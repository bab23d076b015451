"""What is exported does what the classifier does, or is not there."""

import dataclasses
import importlib.util

import keras
import numpy as np
import pytest
from support.packable_networks import normalized, spread_statistics, whole_inputs

from dann.deployment.formats import FORMATS, ExportError, check_format, export
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


def write_packed_by(patch, writer):
    entry = dataclasses.replace(FORMATS.entry("packed"), thing=writer)
    patch.setitem(FORMATS._entries, "packed", entry)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_loaded_and_compared(format, classifier, tmp_path):
    model, inputs = classifier
    found = export(model, format, tmp_path / "made", inputs)
    assert (found["examples"], found["agreement"]) == (16, 1.0)
    assert found["difference"] < 1e-4
    (made,) = (tmp_path / "made").iterdir()
    assert made.name == FORMATS.entry(format).facts["file"]
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
        write_packed_by(patch, worse)
        with pytest.raises(ExportError, match="packed does not give .*differ by up to 0.5"):
            export(model, "packed", tmp_path, inputs)
    assert [path.name for path in tmp_path.iterdir()] == ["classifier.dann"]
    assert (tmp_path / "classifier.dann").read_bytes() == b"old"


def test_another_class_is_a_difference_however_near_the_logits(classifier, tmp_path, monkeypatch):
    model, inputs = classifier
    expected = model.predict(inputs, verbose=0)
    turned = np.where(np.arange(len(expected))[:, None] == 7, -expected, expected)
    write_packed_by(monkeypatch, lambda model, path: lambda inputs: turned)
    with pytest.raises(ExportError, match="93.75% of 16 examples get the same class"):
        export(model, "packed", tmp_path, inputs, tolerance=100.0)


INPUTS = np.array([[5, 2], [3, 3], [1, 0], [0, 4], [3.01, 3]], "float32")


def three_signs(third=1.0, dtype="float32"):
    """A classifier by the signs of `a - b`, `a + b` and `third * (a + b)`."""
    inputs = keras.Input((2,), dtype=dtype)
    floats = keras.layers.Dense(3, use_bias=False)
    signs = BinaryDense(2, use_bias=False)
    model = keras.Model(inputs, signs(floats(keras.ops.cast(inputs, "float32"))))
    floats.set_weights([np.array([[1, 1, third], [-1, 1, third]])])
    signs.set_weights([np.array([[1, -1], [1, -1], [-1, 1]])])
    return model


def exported_wrong(patch, model, turned, seen=lambda inputs: inputs):
    """In place of an export: as the model, but with the other first sign in some examples."""
    first, last = model.get_weights()

    def make(model, path):
        path.touch()
        return run

    def run(inputs):
        signs = np.where(seen(inputs) @ first >= 0, 1, -1)
        signs[turned, 0] *= -1
        return (signs @ last).astype("float32")

    write_packed_by(patch, make)


@pytest.mark.parametrize(("third", "agreement"), [(1.0, 0.8), (-1.0, 1.0)])
def test_a_sum_within_rounding_of_zero_may_fall_to_either_side(
    third, agreement, tmp_path, monkeypatch
):
    model = three_signs(third)
    exported_wrong(monkeypatch, model, [1])
    found = export(model, "packed", tmp_path, INPUTS)
    assert (found["examples"], found["rounded"]) == (5, 1)
    assert (found["agreement"], found["difference"]) == (agreement, 0.0)


def test_how_near_that_is_goes_by_the_size_of_the_inputs(tmp_path, monkeypatch):
    model = three_signs()
    exported_wrong(monkeypatch, model, [4])
    far = np.array([[5000, 2000], [0, 4000], [1000, 0], [0, 2000], [3000.01, 3000]], "float32")
    assert export(model, "packed", tmp_path, far)["rounded"] == 1


def test_sums_that_are_equal_fall_together(tmp_path, monkeypatch):
    """As those of all places of a plain background: a drawn number for each would not do."""
    inputs = keras.Input((40, 1))
    x = keras.layers.Conv1D(1, 1, use_bias=False)(inputs)
    signs = BinaryDense(2, use_bias=False)
    model = keras.Model(inputs, signs(keras.layers.Flatten()(x - 1.0)))
    model.layers[1].set_weights([np.ones((1, 1, 1))])
    signs.set_weights([np.stack([np.ones(40), -np.ones(40)], axis=1)])
    plain = np.stack([np.ones((40, 1)), np.full((40, 1), 2.0)]).astype("float32")
    logits = np.array([[-40, 40], [40, -40]], "float32")

    def make(model, path):
        path.touch()
        return lambda inputs: logits

    write_packed_by(monkeypatch, make)
    assert export(model, "packed", tmp_path, plain)["rounded"] == 1


@pytest.mark.parametrize("example", [0, 2, 3, 4])
def test_a_sum_away_from_zero_may_not(example, tmp_path, monkeypatch):
    model = three_signs()
    exported_wrong(monkeypatch, model, [example])
    with pytest.raises(ExportError, match="here 1 differ; and Keras must give"):
        export(model, "packed", tmp_path, INPUTS)
    assert list(tmp_path.iterdir()) == []


def test_rounding_decides_in_few_examples(tmp_path, monkeypatch):
    """Else the sign of 0 would be taken for it."""
    model = three_signs()
    exported_wrong(monkeypatch, model, [0, 1, 2, 3])
    with pytest.raises(ExportError, match="at most 3 examples, here 4 differ"):
        export(model, "packed", tmp_path, np.full((5, 2), 3, "float32"))


def test_a_great_feature_makes_a_small_one_no_rounding(tmp_path, monkeypatch):
    model = three_signs()
    last = model.get_weights()[1]
    model.set_weights([np.array([[0, 1, 1], [1, 0, 0]]), last])  # signs of b, a and a
    exported_wrong(monkeypatch, model, [], seen=lambda inputs: inputs * [1, -1])
    inputs = np.array([[0.0, 1.0], [1e6, 0.0], [1e6, 0.0], [1e6, 0.0]], "float32")
    with pytest.raises(ExportError, match="here 1 differ"):
        export(model, "packed", tmp_path, inputs)


def test_whole_numbers_have_no_neighbours(tmp_path, monkeypatch):
    model = three_signs(dtype="uint8")
    exported_wrong(monkeypatch, model, [1])
    with pytest.raises(ExportError, match="here 1 differ"):
        export(model, "packed", tmp_path, np.array([[5, 2], [3, 3]], "uint8"))


def test_what_is_not_finite_is_not_taken_for_rounding(tmp_path, monkeypatch):
    model = three_signs()
    for value in (np.nan, np.inf):
        wrong = np.full((5, 2), value, "float32")
        run = lambda inputs, wrong=wrong: wrong  # noqa: E731
        write_packed_by(monkeypatch, lambda model, path, run=run: run)
        with pytest.raises(ExportError, match="here 5 differ"):
            export(model, "packed", tmp_path, INPUTS)
        with pytest.raises(ValueError, match="must be finite. Received: NaN or inf"):
            export(model, "packed", tmp_path, np.where(INPUTS > 4, np.float32(value), INPUTS))


@pytest.mark.parametrize("shape", [(5, 3), (4, 2), (2, 5), (5,)])
def test_logits_of_another_shape_are_reported(shape, tmp_path, monkeypatch):
    run = lambda inputs: np.zeros(shape, "float32")  # noqa: E731
    write_packed_by(monkeypatch, lambda model, path: run)
    with pytest.raises(ExportError, match=r"must give logits \(5, 2\).*Received: \("):
        export(three_signs(), "packed", tmp_path, INPUTS)


@pytest.mark.parametrize(
    ("format", "message"),
    [("packed", "a folder, by a file"), ("saved_model", "a file, by a folder")],
)
def test_a_folder_is_not_replaced_by_a_file(format, message, classifier, tmp_path):
    model, inputs = classifier
    place = tmp_path / FORMATS.entry(format).facts["file"]
    if format == "packed":
        place.mkdir()
        (place / "notes").write_text("mine")
    else:
        place.write_text("mine")
    with pytest.raises(FileExistsError, match=message):
        export(model, format, tmp_path, inputs)
    assert (place / "notes" if format == "packed" else place).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_unknown_formats_and_missing_packages_are_reported(classifier, tmp_path, monkeypatch):
    model, inputs = classifier
    with pytest.raises(ValueError, match="`format` must be one of .*'packed'.*Received: .*gguf"):
        export(model, "gguf", tmp_path, inputs)
    with pytest.raises(ValueError, match="inputs to compare on"):
        export(model, "packed", tmp_path, inputs[:0])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install .*ai-edge-litert"):
        check_format("litert")
