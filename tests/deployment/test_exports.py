"""What is exported does what the classifier does, or is not there."""

import keras
import numpy as np
import pytest
from packable_networks import normalized, spread_statistics, whole_inputs

from dann.deployment import FORMATS, export, exports
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
def test_what_differs_in_more_than_one_example_is_removed(
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
    assert path.exists() == (different == 1)
