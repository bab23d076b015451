import json
import os
import pathlib
import re
import shutil
import struct
import threading
import time
import zlib

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image
from support import corruptions

from dann.data import image_files
from dann.data.image_files import EXTENSIONS, ImageFiles, check_image_size

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (5, 6, 8, 3)).astype("uint8")
SIZE = (6, 8)
RED_AND_BLUE = np.array([[[255, 0, 0], [0, 0, 255]]] * 2, "uint8")


@pytest.fixture
def paths(tmp_path):
    """Five PNG files of those pixels."""
    folder = tmp_path / "images"
    folder.mkdir()
    names = [folder / f"{index}.png" for index in range(len(PIXELS))]
    for name, pixels in zip(names, PIXELS, strict=True):
        Image.fromarray(pixels).save(name)
    return names


def decoded(path, size, **arguments):
    return ImageFiles([path], size, **arguments)[0]


@pytest.mark.parametrize(
    "chosen",
    [2, -1, np.int64(1), slice(1, 4), slice(0, 0), np.array([4, 0, 0]), np.arange(5) % 2 == 0],
    ids=str,
)
def test_images_are_indexed_like_an_array(paths, chosen):
    images = ImageFiles(paths, SIZE)
    assert (images.shape, images.dtype, len(images)) == (PIXELS.shape, np.dtype("uint8"), 5)
    np.testing.assert_array_equal(images[chosen], PIXELS[chosen])
    assert images[chosen].dtype == np.uint8


def test_an_index_out_of_range_is_refused(paths):
    with pytest.raises(IndexError):
        ImageFiles(paths, SIZE)[5]


@pytest.mark.parametrize("name", sorted(f"a{suffix}" for suffix in EXTENSIONS))
def test_every_format_is_read(tmp_path, name):
    jpeg = {"quality": 100, "subsampling": 0}
    options = {"a.webp": {"lossless": True}, "a.jpg": jpeg, "a.jpeg": jpeg}.get(name, {})
    Image.fromarray(RED_AND_BLUE).save(tmp_path / name, **options)
    found = decoded(tmp_path / name, (2, 2)).astype(int)
    assert np.abs(found - RED_AND_BLUE).max() <= (3 if "jp" in name else 0)


def test_a_tiff_is_read_as_a_png_is(tmp_path):
    assert {".tif", ".tiff"} <= set(EXTENSIONS)
    upper = np.array([[1, 77], [128, 255]], "uint8")
    deep = np.ascontiguousarray(upper.astype(">u2") * 256 + 200)
    for order in ("<u2", ">u2"):
        Image.fromarray(deep.astype(order)).save(tmp_path / "a.tif")
        np.testing.assert_array_equal(
            decoded(tmp_path / "a.tif", (2, 2), channels=1)[..., 0], upper
        )
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(PIXELS[0]).save(tmp_path / "a.tif", exif=exif, compression="tiff_lzw")
    turned = PIXELS[0].swapaxes(0, 1)[:, ::-1]
    np.testing.assert_array_equal(decoded(tmp_path / "a.tif", (8, 6)), turned)


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 0.5), ("int32", 70000), ("int32", -1), ("int32", 200)]
)
def test_values_that_are_neither_8_nor_16_bits_are_refused(tmp_path, dtype, value):
    Image.fromarray(np.full((1, 1), value, dtype)).save(tmp_path / "a.tif")
    assert ImageFiles([tmp_path / "a.tif"], (1, 1)).unreadable() == [0]


def test_of_an_animation_the_first_frame_is_read(tmp_path):
    frames = [Image.new("RGB", (2, 2), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decoded(tmp_path / "a.gif", (2, 2))[0, 0], [255, 0, 0])


MODES = {
    "grey": (Image.new("L", (2, 2), 77), [77, 77, 77]),
    "grey with transparency": (Image.new("LA", (2, 2), (77, 9)), [77, 77, 77]),
    "black and white": (Image.new("1", (2, 2), 1), [255, 255, 255]),
    "16 bits": (Image.fromarray(np.full((2, 2), 77 * 256 + 200, "uint16")), [77, 77, 77]),
    "transparency": (Image.new("RGBA", (2, 2), (1, 2, 3, 0)), [1, 2, 3]),
    "palette": (Image.fromarray(RED_AND_BLUE).quantize(2), [255, 0, 0]),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_becomes_red_green_and_blue(tmp_path, mode):
    image, expected = MODES[mode]
    image.save(tmp_path / "a.png")
    np.testing.assert_array_equal(decoded(tmp_path / "a.png", (2, 2))[0, 0], expected)


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path):
    palette = Image.fromarray(RED_AND_BLUE).quantize(2)
    palette.save(tmp_path / "a.png", transparency=bytes([0, 128]))
    np.testing.assert_array_equal(decoded(tmp_path / "a.png", (2, 2)), RED_AND_BLUE)


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_one_channel_is_the_luma(tmp_path, name):
    Image.new("RGB", (8, 8), (200, 100, 50)).save(tmp_path / name)
    luma = 0.299 * 200 + 0.587 * 100 + 0.114 * 50
    found = decoded(tmp_path / name, (4, 4), channels=1)
    assert found.shape == (4, 4, 1)
    assert np.abs(found - luma).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_as_its_exif_entry_says(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    Image.fromarray(PIXELS[0]).save(tmp_path / "a.png", exif=exif)
    upright = PIXELS[0]
    if orientation >= 5:  # rows and columns are exchanged
        upright = upright.swapaxes(0, 1)
    flipped_rows = orientation in (3, 4, 7, 8)
    flipped_columns = orientation in (2, 3, 6, 7)
    upright = upright[:: -1 if flipped_rows else 1, :: -1 if flipped_columns else 1]
    np.testing.assert_array_equal(decoded(tmp_path / "a.png", upright.shape[:2]), upright)


def test_shrinking_is_bilinear_and_antialiased(tmp_path):
    Image.fromarray(PIXELS[0]).save(tmp_path / "a.png")
    # A triangle of the width of two new pixels has these weights on four old ones.
    weights = np.array([1, 3, 3, 1]) / 8
    found = decoded(tmp_path / "a.png", (6, 4))  # of 6x8: the aspect is not kept
    for column in (1, 2):
        expected = np.einsum("rkc,k->rc", PIXELS[0][:, 2 * column - 1 : 2 * column + 3], weights)
        assert np.abs(found[:, column] - expected).max() <= 0.51


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_large_jpeg_is_close_to_its_full_decoding(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    Image.fromarray(load_sample_image("flower.jpg")).save(tmp_path / "a.jpg", exif=exif)
    found = decoded(tmp_path / "a.jpg", (20, 60)).astype(int)
    full = Image.open(tmp_path / "a.jpg").convert("RGB")
    if orientation == 6:
        full = full.transpose(Image.Transpose.ROTATE_270)
    full = np.asarray(full.resize((60, 20), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(found - full).mean() < 2


@pytest.mark.parametrize("size", [8, np.int64(8), [8, 8], (8, 8)])
def test_a_size_is_a_side_or_a_height_and_a_width(size):
    assert check_image_size(size) == (8, 8)


@pytest.mark.parametrize(
    ("size", "error", "received"),
    [
        (0, ValueError, "image_size=0"),
        ([4, -1], ValueError, "image_size=-1"),
        ([4], ValueError, r"image_size=\[4\]"),
        ((1, 2, 3), ValueError, r"image_size=\(1, 2, 3\)"),
        ("large", TypeError, "image_size='large'"),
        (2.5, TypeError, "image_size=2.5"),
        ([8, 2.5], TypeError, "image_size=2.5"),
        (True, TypeError, "image_size=True"),
        ([4, True], TypeError, "image_size=True"),
    ],
)
def test_a_size_that_is_not_pixels_is_refused(size, error, received):
    with pytest.raises(error, match=f"`image_size` must be .*Received: {received}"):
        check_image_size(size)


def test_images_have_1_or_3_channels():
    with pytest.raises(ValueError, match="`channels` must be one of 1, 3. Received: channels=2"):
        ImageFiles([], SIZE, channels=2)


@pytest.fixture
def broken(paths):
    """The second file is cut short, the fourth is text."""
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    paths[3].write_text("no image")
    return paths


def test_broken_images_are_found_and_named_when_they_are_read(broken):
    images = ImageFiles(broken, SIZE)
    assert images.unreadable() == [1, 3]
    np.testing.assert_array_equal(images[[0, 2, 4]], PIXELS[[0, 2, 4]])
    with pytest.raises(ValueError, match="Expected an image. Received: .*3.png"):
        images[2:4]


def test_a_cache_holds_the_decoded_images(broken, tmp_path):
    images, unreadable = ImageFiles(broken, (3, 4)).cached(tmp_path / "cache")
    assert unreadable == [1, 3]
    assert isinstance(images, np.memmap)
    assert not images.flags.writeable
    np.testing.assert_array_equal(images[::2], ImageFiles(broken, (3, 4))[::2])
    assert not images[[1, 3]].any()


def test_a_cache_of_several_chunks_keeps_the_order(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "_CHUNK", 2)
    images, _ = ImageFiles(paths, SIZE).cached(tmp_path / "cache")
    np.testing.assert_array_equal(images, PIXELS)


@pytest.fixture
def cache(paths, tmp_path, capsys):
    """A function that caches images; tells what they are and whether they were decoded for it."""

    def cached(paths=paths, size=SIZE, root=tmp_path / "images", **arguments):
        images, _ = ImageFiles(paths, size, **arguments).cached(tmp_path / "cache", root)
        return np.array(images), f"Decoding {len(paths)} images" in capsys.readouterr().out

    return cached


def test_a_second_time_nothing_is_decoded(cache, monkeypatch):
    assert cache()[1]
    monkeypatch.setattr(image_files, "_decoded", pytest.fail)
    images, decoded = cache()
    np.testing.assert_array_equal(images, PIXELS)
    assert not decoded


def test_a_moved_folder_keeps_its_cache(cache, paths, tmp_path):
    cache()
    shutil.move(tmp_path / "images", tmp_path / "moved")
    moved = [tmp_path / "moved" / path.name for path in paths]
    images, decoded = cache(moved, root=tmp_path / "moved")
    np.testing.assert_array_equal(images, PIXELS)
    assert not decoded


def test_changed_images_are_decoded_again(cache, paths):
    cache()
    assert cache(size=(8, 6))[1]
    assert cache(channels=1)[1]
    assert cache(paths[::-1])[1]
    Image.fromarray(PIXELS[4]).save(paths[0])
    images, decoded = cache()
    np.testing.assert_array_equal(images[0], PIXELS[4])
    assert decoded


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0], ids=["head", "middle", "tail"])
@pytest.mark.parametrize("side", [8, 200], ids=["small", "large"])
def test_images_of_one_name_size_and_time_are_not_confused(cache, tmp_path, place, side):
    found = []
    for name, colour in (("a", 10), ("b", 20)):
        path = tmp_path / name / "0.ppm"  # of one size, whatever the colours
        path.parent.mkdir()
        pixels = np.zeros((side * side, 3), "uint8")
        pixels[round(place * (side * side - 1))] = colour
        Image.fromarray(pixels.reshape(side, side, 3)).save(path)
        os.utime(path, ns=(1, 1))
        images, _ = cache([path], size=(side, side), root=path.parent)
        found.append(int(images.max()))
    assert found == [10, 20]


def test_a_file_that_is_not_there_is_unreadable_until_it_is(cache, paths, tmp_path):
    content = paths[1].read_bytes()
    paths[1].unlink()
    images, unreadable = ImageFiles(paths, SIZE).cached(tmp_path / "cache", tmp_path / "images")
    assert unreadable == [1]
    np.testing.assert_array_equal(images[[0, 2, 3, 4]], PIXELS[[0, 2, 3, 4]])
    paths[1].write_bytes(content)
    np.testing.assert_array_equal(cache()[0], PIXELS)


def test_an_image_that_can_be_read_again_is(cache, paths, monkeypatch):
    decode = image_files._decoded

    def denied(path, *form):
        if path == str(paths[2]):
            raise PermissionError
        return decode(path, *form)

    with monkeypatch.context() as patch:
        patch.setattr(image_files, "_decoded", denied)
        assert not cache()[0][2].any()
        assert not cache()[1]
    np.testing.assert_array_equal(cache()[0], PIXELS)


def test_an_interrupted_caching_leaves_nothing_and_starts_again(cache, tmp_path, monkeypatch):
    def interrupted(path, *form):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(image_files, "_decoded", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache()
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} <= {".lock"}
    np.testing.assert_array_equal(cache()[0], PIXELS)


@pytest.mark.parametrize(
    ("renaming", "denied"), [(1, 4), (2, 2)], ids=["of the images", "of the notes"]
)
def test_a_renewed_cache_whose_renaming_is_interrupted_is_not_taken_for_whole(
    cache, paths, tmp_path, monkeypatch, renaming, denied
):
    decode, replace, calls, closed = image_files._decoded, pathlib.Path.replace, [], []

    def decode_if_open(path, *form):
        if path in closed:
            raise PermissionError
        return decode(path, *form)

    def interrupted(*places):
        calls.append(places)
        if len(calls) == renaming:
            raise KeyboardInterrupt
        return replace(*places)

    monkeypatch.setattr(image_files, "_decoded", decode_if_open)
    closed[:] = [str(paths[2])]
    cache()
    closed[:] = [str(paths[4])]
    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache()
    assert not list((tmp_path / "cache").glob("*.partial"))
    # The images and the notes of the two passes, taken together, would fit what can be read now.
    closed[:] = [str(paths[denied])]
    images, decoded = cache()
    others = np.arange(5) != denied
    np.testing.assert_array_equal(images[others], PIXELS[others])
    assert decoded
    assert not cache()[1]


def test_the_rest_of_a_killed_process_is_not_taken_for_a_cache(cache, tmp_path):
    cache()
    (finished,) = (tmp_path / "cache").glob("*.npy")
    finished.with_suffix(".partial").write_bytes(finished.read_bytes()[:200])
    finished.unlink()
    images, decoded = cache()
    np.testing.assert_array_equal(images, PIXELS)
    assert decoded
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_two_at_a_time_decode_once(paths, tmp_path, capsys):
    def work():
        ImageFiles(paths, SIZE).cached(tmp_path / "cache")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().out.count("Decoding") == 1


def test_a_full_disk_is_an_error_before_the_decoding(paths, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=719)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(
        OSError, match="choose another `cache_dir`.*Received: .*cache with 0.0 MB free"
    ):
        ImageFiles(paths, SIZE).cached(tmp_path / "cache")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=720))
    assert len(ImageFiles(paths, SIZE).cached(tmp_path / "cache")[0]) == 5


def change_notes(**changes):
    return lambda content, rng: json.dumps({**json.loads(content), **changes}).encode()


@pytest.mark.parametrize(
    ("suffix", "way"),
    [
        (".npy", corruptions.flip_a_bit),
        (".npy", corruptions.cut),
        (".npy", corruptions.zero_all),
        (".npy", corruptions.empty),
        (".npy", corruptions.append),
        (".npy", lambda content, rng: content[:-1] + bytes([content[-1] ^ 1])),
        (".npy", lambda content, rng: content.replace(b"(5, 6, 8, 3)", b"(5, 8, 6, 3)")),
        (".json", corruptions.cut),
        (".json", corruptions.zero_all),
        (".json", lambda content, rng: b"[]"),  # as version 1 wrote them
        (".json", change_notes(unreadable=[5])),
        (".json", change_notes(unreadable=[-1])),
        (".json", change_notes(unreadable={"0": 1})),
        (".json", change_notes(unreadable=[1.5])),
        (".json", change_notes(crc32=None)),
        (".json", change_notes(version=3)),
    ],
)
def test_a_cache_that_is_broken_or_of_another_version_is_reported_and_made_again(
    paths, tmp_path, capsys, suffix, way
):
    images = ImageFiles(paths, SIZE)
    images.cached(tmp_path / "cache")
    (finished,) = (tmp_path / "cache").glob("*.npy")
    file = finished.with_suffix(suffix)
    content = file.read_bytes()
    file.write_bytes(way(content, np.random.default_rng(1)))
    assert file.read_bytes() != content
    capsys.readouterr()
    found, unreadable = images.cached(tmp_path / "cache")
    np.testing.assert_array_equal(found, PIXELS)
    assert unreadable == []
    told = [line for line in capsys.readouterr().out.splitlines() if "made again" in line]
    assert len(told) == 1
    assert told[0].startswith(f"{finished} is made again: it")
    images.cached(tmp_path / "cache")
    assert capsys.readouterr().out == ""


def png_of(width, height):
    """A PNG file that declares a size, and has no pixels."""
    found = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")):
        crc = zlib.crc32(kind + content)
        found += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)
    return found


@pytest.mark.parametrize("side", [50_000, 13_000, 9_460])
def test_of_a_huge_image_only_the_header_is_read(tmp_path, monkeypatch, side):
    (tmp_path / "a.png").write_bytes(png_of(side, side))
    monkeypatch.setattr(image_files, "_in_form", pytest.fail)
    images = ImageFiles([tmp_path / "a.png"], 8)
    assert images.unreadable() == [0]
    message = rf"at most 89,478,485 pixels; raise `max_pixels` .*Received: {side} x {side}"
    assert re.search(message, str(images.error_of(0)))


def test_the_limit_of_pixels_can_be_raised(tmp_path):
    Image.new("L", (30, 20), 7).save(tmp_path / "a.png")
    for limit, count in ((599, 1), (600, 0)):
        images = ImageFiles([tmp_path / "a.png"], 8, max_pixels=limit)
        assert len(images.unreadable()) == count
        assert images.cached(tmp_path / "cache")[1] == [0] * count
    assert ImageFiles([tmp_path / "a.png"], 8, max_pixels=599).error_of(0)
    assert images.error_of(0) is None


def test_large_images_are_in_memory_one_at_a_time(tmp_path, monkeypatch):
    for index in range(6):
        Image.new("L", (30, 20), index).save(tmp_path / f"{index}.png")
    running, most, form = [], [], image_files._in_form

    def in_form(image, *arguments):
        running.append(1)
        time.sleep(0.02)
        most.append(len(running))
        found = form(image, *arguments)
        running.pop()
        return found

    monkeypatch.setattr(image_files, "_in_form", in_form)
    images = ImageFiles([tmp_path / f"{index}.png" for index in range(6)], 4)
    assert images[:][:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert max(most) > 1
    most.clear()
    monkeypatch.setattr(image_files, "_LARGE", 599)
    assert images[:][:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert max(most) == 1


def test_other_formats_are_refused_under_any_name(tmp_path):
    """Pillow would start Ghostscript for a PostScript file."""
    for kind in ("EPS", "TGA", "ICO", "PDF"):
        Image.new("RGB", (4, 4)).save(tmp_path / "a.png", kind)
        error = ImageFiles([tmp_path / "a.png"], 4).error_of(0)
        assert "Expected one of the formats BMP, GIF" in str(error)
