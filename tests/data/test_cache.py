import re
import threading
import time

import numpy as np
import pytest

from dann.data.cache import check_memory, left_in_groups, load_or_compute, make_folder


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


def group(folder, limit, used, of_files, version):
    """Writes the files of a control group as Linux does."""
    names = {1: ("limit_in_bytes", "usage_in_bytes"), 2: ("max", "current")}[version]
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (limit, used), strict=True):
        (folder / f"memory.{name}").write_text(f"{value}\n")
    kind = {1: "total_inactive_file", 2: "inactive_file"}[version]
    (folder / "memory.stat").write_text(f"anon 5\n{kind} {of_files}\n")


@pytest.mark.parametrize(
    ("version", "top", "line"),
    [(1, "memory", "4:memory:/slurm/job_7"), (2, "", "0::/slurm/job_7")],
)
def test_the_memory_that_is_left_is_that_of_the_tightest_control_group(
    tmp_path, version, top, line
):
    own, root = tmp_path / "own", tmp_path / "groups"
    assert left_in_groups(own, root) == np.inf
    own.write_text(f"9:cpu:/elsewhere\n{line}\n")
    assert left_in_groups(own, root) == np.inf
    group(root / top, "max" if version == 2 else 2**63 - 4096, 900, 0, version)
    group(root / top / "slurm", 1000, 700, 50, version)
    assert left_in_groups(own, root) == 350
    group(root / top / "slurm" / "job_7", 500, 400, 100, version)
    assert left_in_groups(own, root) == 200
    group(root / top / "slurm" / "job_7", 500, 600, 0, version)
    assert left_in_groups(own, root) == 0


def test_more_memory_than_a_container_leaves_is_refused(monkeypatch):
    monkeypatch.setattr("dann.data.cache.left_in_groups", lambda: 3e8)
    check_memory(200_000_000)
    with pytest.raises(ValueError, match="take 0.4 GB in memory.*Received: 0.3 GB of memory avail"):
        check_memory(400_000_000)
