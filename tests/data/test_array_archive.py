import io
import zipfile

import numpy as np
import pytest

from dann.data.array_archive import read_archive

BROKEN = r"Expected an .npz file of arrays. Received: .*a.npz"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.npz"


def declared(shape, dtype="<f8", version=1):
    """The head of a `.npy` file, with eight bytes of content."""
    file = io.BytesIO()
    write = getattr(np.lib.format, f"write_array_header_{version}_0")
    write(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(8)


def test_the_chosen_arrays_are_read_as_they_were_written(path):
    arrays = {
        "x": np.arange(6.0).reshape(2, 3),
        "y": np.asfortranarray(np.ones((3, 4), ">i2")),
        "z": np.array(["a", "bc"]),
        "none": np.zeros((0, 5), "float32"),
        "object": np.array([None]),
    }
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        found, names = read_archive(path, ("x", "y", "z", "none", "absent"))
        assert names == sorted(arrays)
        assert list(found) == ["none", "x", "y", "z"]
        for name, array in found.items():
            np.testing.assert_array_equal(array, arrays[name])
            assert array.dtype == arrays[name].dtype


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1_250_000_000,), "<f8"),
        ((50_000, 50_000, 4), "|u1"),
        ((-2, -4), "|u1"),
        ((10**30,), "|V0"),
        ((10**12,), "<U0"),
        ((1,), "|O"),
    ],
)
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_declared_array_is_refused_before_memory_is_taken(
    path, little_memory, shape, dtype, compression, version
):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", declared(shape, dtype, version))
    with pytest.raises(ValueError, match=BROKEN):
        read_archive(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_size_that_the_directory_alone_declares_is_refused(path, little_memory, compression):
    content = declared((2**27,), "<f8")[:-8]
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", content)
    forged, size = path.read_bytes(), len(content)
    start = forged.index(b"PK\1\2") + 20  # where the directory has both sizes
    sizes = np.frombuffer(forged, "<u4", 2, start) + 2**30
    path.write_bytes(forged[:start] + sizes.astype("<u4").tobytes() + forged[start + 8 :])
    with zipfile.ZipFile(path) as archive:
        assert archive.infolist()[0].file_size == 2**30 + size
    with pytest.raises(ValueError, match=BROKEN):
        read_archive(path)


def test_arrays_that_are_too_large_are_refused_with_the_limit_to_raise(path, little_memory):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x", "y", "other"):
            with archive.open(f"{name}.npy", "w") as file:
                file.write(declared((8_000_000,), "|u1")[:-8])
                for _ in range(8):
                    file.write(bytes(1_000_000))
    message = r"may take 0.015 GB; raise `max_gigabytes` .*Received: .*a.npz with 0.016 GB"
    with pytest.raises(ValueError, match=message):
        read_archive(path, ("x", "y"), max_gigabytes=0.015)
    found, _ = read_archive(path, ("x", "y"), max_gigabytes=0.017)
    assert found["x"].shape == (8_000_000,)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_numpy_does_not_write_are_refused(path, compression):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", declared((1,)))
    with pytest.raises(ValueError, match=BROKEN):
        read_archive(path)


def test_a_file_that_may_not_be_read_is_no_broken_one(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_archive(tmp_path)
