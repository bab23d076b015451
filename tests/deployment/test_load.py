"""A packed file that is loaded runs as C, or as NumPy where it cannot."""

import shutil

import keras
import numpy as np
import pytest
from packable_networks import logits, whole_inputs

from dann import layers as own
from dann.deployment import c_file, load, pack

compiles = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def packed(tmp_path):
    model = keras.Sequential([keras.Input((70,)), own.BinaryDense(3, use_bias=False)])
    pack(model, tmp_path / "model.dann")
    inputs = whole_inputs(model, 5)
    return tmp_path / "model.dann", inputs, logits(model, inputs)


@compiles
def test_a_packed_file_is_compiled_once(tmp_path, monkeypatch):
    path, inputs, expected = packed(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.testing.assert_array_equal(load(path).predict(inputs, batch_size=2), expected)
    (library,) = (tmp_path / "cache/dann").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(c_file, "source_of", None)  # nor is its C written again
        np.testing.assert_array_equal(load(path).predict(inputs), expected)
        assert load(path).predict(inputs[:0]).shape == (0, 3)
    path, inputs, other = packed(tmp_path)
    assert (other != expected).any()
    np.testing.assert_array_equal(load(path).predict(inputs), other)
    assert len(list(library.parent.iterdir())) == 2


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("no-such-compiler", "No such file"),
        ("false", "fails with 1"),
        pytest.param("cc -fwrong", "error: .*-fwrong", marks=compiles),
    ],
)
def test_numpy_runs_where_c_cannot_be_compiled_and_says_why(compiler, why, tmp_path, monkeypatch):
    path, inputs, expected = packed(tmp_path)
    monkeypatch.setenv("CC", compiler)
    with pytest.warns(UserWarning, match=f"NumPy runs.*{why}") as told:
        model = load(path)
    np.testing.assert_array_equal(model.predict(inputs, batch_size=1), expected)
    assert len(told) == 1


def test_numpy_runs_three_spatial_axes_and_a_warning_says_so(tmp_path):
    inputs = keras.Input((4, 4, 4, 2))
    pack(keras.Model(inputs, own.BinaryConv3D(2, 2)(inputs)), tmp_path / "model.dann")
    with pytest.warns(UserWarning, match="3 spatial axes"):
        load(tmp_path / "model.dann")
