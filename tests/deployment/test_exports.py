"""What is exported does what the classifier does, or is not there."""

import keras
import numpy as np
import pytest
from packable_networks import normalized, spread_statistics, whole_inputs

from dann.deployment import FORMATS, PackError, export, exports
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
    path = tmp_path / f"made/classifier{FORMATS[format][0]}"
    found = export(model, path, format, inputs)
    assert (found["examples"], found["different"]) == (16, 0)
    assert found["difference"] < 1e-4
    assert found["bytes"] > 100
    assert [str(one) for one in (tmp_path / "made").iterdir()] == [str(path)] == [found["path"]]


def test_inputs_have_the_type_that_the_model_takes(tmp_path):
    inputs = keras.Input((6,), dtype="uint8")
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Rescaling(1 / 255)(inputs)))
    images = np.arange(24).reshape(4, 6) * 10
    assert export(model, tmp_path / "a.onnx", "onnx", images)["difference"] < 1e-5


@pytest.mark.parametrize(("turned", "shift", "different"), [(0, 0.5, 16), (2, 0, 2), (1, 0, 1)])
def test_what_differs_in_more_than_one_example_replaces_nothing(
    turned, shift, different, classifier, tmp_path, monkeypatch
):
    model, inputs = classifier
    given = model.predict(inputs, verbose=0) + shift
    given[:turned] *= -1

    def write(model, path):
        path.write_bytes(b"worse")
        return lambda inputs: given

    monkeypatch.setattr(exports, "FORMATS", {"packed": (".dann", write)})
    (path := tmp_path / "classifier.dann").write_bytes(b"old")
    if different == 1:
        found = export(model, path, "packed", inputs)
        assert (found["different"], found["difference"]) == (1, 0.0)
    else:
        with pytest.raises(ValueError, match=f"{different} of 16 examples"):
            export(model, path, "packed", inputs)
    assert path.read_bytes() == (b"worse" if different == 1 else b"old")
    assert list(tmp_path.iterdir()) == [path]


def content(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_only_what_a_format_writes_is_replaced(classifier, tmp_path):
    (tmp_path / "folder/inner").mkdir(parents=True)
    for name in ("folder/notes.txt", "file.dann"):
        (tmp_path / name).write_text("mine")
    before = content(tmp_path)
    for name, format in (
        ("folder", "packed"),
        ("folder", "saved_model"),
        ("file.dann", "saved_model"),
    ):
        with pytest.raises(ValueError, match=f"format={format} replaces only .*{name}"):
            export(classifier[0], tmp_path / name, format, classifier[1])
    gelu = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, activation="gelu")])
    with pytest.raises(PackError):
        export(gelu, tmp_path / "file.dann", "packed", np.zeros((2, 2)))
    assert content(tmp_path) == before


def test_a_saved_model_is_replaced(classifier, tmp_path):
    (path := tmp_path / "model").mkdir()
    for name in ("saved_model.pb", "old"):
        (path / name).touch()
    export(classifier[0], path, "saved_model", classifier[1])
    assert (path / "saved_model.pb").stat().st_size
    assert not (path / "old").exists()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("compiler", ["/nonexistent", "false"])
def test_c_without_a_compiler_is_refused_in_one_line(compiler, classifier, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(OSError, match=f"^.*'{compiler}'.*$"):
        export(classifier[0], tmp_path / "net.c", "c", classifier[1])
    assert list(tmp_path.iterdir()) == []
