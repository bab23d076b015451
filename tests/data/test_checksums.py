import zlib

import numpy as np

from dann.data import checksums
from dann.data.checksums import checksum, checksum_of_rows, fault_of, is_sealed, seal


def test_a_checksum_is_the_crc_32_of_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "_BLOCK", 7)
    for size in (0, 6, 7, 8, 100):
        content = np.random.default_rng(size).bytes(size)
        (tmp_path / "a").write_bytes(content)
        assert checksum(tmp_path / "a") == zlib.crc32(content)


def test_a_sealed_folder_names_the_changed_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(10))
    (tmp_path / "folder").mkdir()
    assert not is_sealed(tmp_path)
    for _ in range(2):
        seal(tmp_path)
        assert is_sealed(tmp_path)
        assert fault_of(tmp_path) is None
    (tmp_path / "folder/c").touch()
    (tmp_path / "d").touch()
    assert fault_of(tmp_path) is None
    (tmp_path / "b").write_bytes(bytes(9) + b"1")
    assert fault_of(tmp_path) == "b has changed since it was written"
    (tmp_path / "a").unlink()
    assert fault_of(tmp_path) == "a is missing"
    for content in (b"", b"[1]", b"\xff"):
        (tmp_path / "checksums.json").write_bytes(content)
        assert fault_of(tmp_path) == "its checksums.json cannot be read"


def test_rows_have_another_checksum_when_any_of_them_changes():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    known = checksum_of_rows(rows)
    assert known == checksum_of_rows(rows.copy())
    for index in range(50):
        changed = rows.copy()
        changed[index, 1] += 1e-12
        assert checksum_of_rows(changed) != known
    assert checksum_of_rows(rows.reshape(25, 6)) != known
    words = np.array(["a", "b"], object)
    assert checksum_of_rows(words) == checksum_of_rows(words.copy())
    assert checksum_of_rows(words) != checksum_of_rows(words[::-1])
    assert checksum_of_rows(rows[:0]) == checksum_of_rows(rows[:0])


def test_of_a_large_array_few_rows_are_read(monkeypatch):
    read = []
    monkeypatch.setattr(zlib, "crc32", lambda held, start=0: read.append(len(held)) or 0)
    checksum_of_rows(np.zeros((3000, 5000)))
    assert max(read) == 40_000 * ((4 << 20) // 40_000)
