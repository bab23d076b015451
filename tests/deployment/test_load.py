"""Loaded packed files run compiled C, or NumPy where C is not available."""

import shutil

import keras
import numpy as np
import pytest
from packable_networks import integer_inputs, logits

from dann.deployment import c_file, load, pack
from dann.layers import BinaryDense

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
