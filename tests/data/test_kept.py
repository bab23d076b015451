import numpy as np
import pytest

from dann.data.kept import kept


def test_arrays_are_made_once(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return {"a": np.arange(3), "b": np.zeros((2, 2), "uint8")}

    first, again = (kept(tmp_path / "deep" / "x.npz", make) for _ in range(2))
    assert len(calls) == 1
    for name in ("a", "b"):
        np.testing.assert_array_equal(first[name], again[name])
        assert first[name].dtype == again[name].dtype


def test_an_interrupted_writing_leaves_nothing(tmp_path, monkeypatch):
    def broken(path, **arrays):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "x.npz", lambda: {"a": np.arange(3)})
    assert list(tmp_path.iterdir()) == []
