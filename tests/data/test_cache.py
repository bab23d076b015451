import re
import threading
import time

import numpy as np
import pytest

from dann.data.cache import load_or_compute, make_folder


def test_arrays_are_made_once(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return {"a": np.arange(3), "b": np.zeros((2, 2), "uint8")}

    first, again = (load_or_compute(tmp_path / "deep" / "x.npz", make) for _ in range(2))
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
        load_or_compute(tmp_path / "x.npz", lambda: {"a": np.arange(3)})
    assert {path.suffix for path in tmp_path.iterdir()} <= {".lock"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: b"x,y",
        lambda content: content[:300],
        lambda content: content[:-30],
        lambda content: content[:700] + bytes([content[700] ^ 255]) + content[701:],
    ],
    ids=["empty", "text", "a piece", "without its end", "a flipped byte"],
)
def test_a_broken_file_is_computed_again(tmp_path, capsys, spoil):
    path = tmp_path / "x.npz"
    expected = load_or_compute(path, lambda: {"a": np.arange(200)})["a"]
    path.write_bytes(spoil(path.read_bytes()))
    np.testing.assert_array_equal(
        load_or_compute(path, lambda: {"a": np.arange(200)})["a"], expected
    )
    assert f"{path} is made again: it cannot be read" in capsys.readouterr().out
    np.testing.assert_array_equal(load_or_compute(path, pytest.fail)["a"], expected)
    assert capsys.readouterr().out == ""


def test_of_several_at_a_time_one_computes_and_the_others_wait(tmp_path):
    calls, found = [], []

    def compute():
        calls.append(1)
        time.sleep(0.1)
        return {"a": np.arange(3)}

    def work():
        found.append(load_or_compute(tmp_path / "x.npz", compute)["a"].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert found == [[0, 1, 2]] * 4


def test_arrays_that_do_not_fit_are_computed_again(tmp_path, capsys):
    load_or_compute(tmp_path / "x.npz", lambda: {"a": np.arange(3)})
    capsys.readouterr()
    found = load_or_compute(
        tmp_path / "x.npz", lambda: {"a": np.arange(4)}, fits=lambda arrays: len(arrays["a"]) == 4
    )
    assert len(found["a"]) == 4
    assert capsys.readouterr().out == f"{tmp_path / 'x.npz'} is made again: it holds other arrays\n"


def test_a_folder_is_made_unless_a_file_is_in_its_place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert make_folder("~/a/b") == make_folder(tmp_path / "a/b") == tmp_path / "a/b"
    (tmp_path / "a/file").touch()
    for path in (tmp_path / "a/file", tmp_path / "a/file/b/c"):
        message = f"another `cache_dir`, .*Received: {re.escape(str(path))}, where .*a/file is a f"
        with pytest.raises(NotADirectoryError, match=message):
            make_folder(path)
