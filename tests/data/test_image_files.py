import filelock
import numpy as np
import pytest
from PIL import Image

from dann.data import image_files
from dann.data.image_files import EXTENSIONS, ImageFiles

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 6, 8, 3)).astype("uint8")
SIZE = (6, 8)
FLIPPED = (3, 4, 7, 8), (2, 3, 6, 7)  # orientations with flipped rows, with flipped columns
RED_AND_BLUE = np.array([[[255, 0, 0], [0, 0, 255]]] * 2, "uint8")
DEEP = np.full((2, 2), 77 * 256 + 200)  # 16 bits


@pytest.fixture
def paths(tmp_path):
    """Writes five PNG files of `PIXELS`."""
    names = [tmp_path / f"{index}.png" for index in range(len(PIXELS))]
    for name, pixels in zip(names, PIXELS, strict=True):
        Image.fromarray(pixels).save(name)
    return names


def decoded(path, image, size=(2, 2), channels=3, **options):
    """Writes an image to a file and reads it."""
    image.save(path, **options)
    return ImageFiles([path], size, channels)[0]


@pytest.mark.parametrize("suffix", EXTENSIONS)
def test_every_format_is_read(tmp_path, suffix):
    jpeg = {"quality": 100, "subsampling": 0}
    options = {".webp": {"lossless": True}, ".jpg": jpeg, ".jpeg": jpeg}.get(suffix, {})
    if suffix == ".gif":  # the first frame of an animation is read
        options = {"save_all": True, "append_images": [Image.new("RGB", (2, 2), "blue")]}
    pixels = decoded(tmp_path / f"a{suffix}", Image.fromarray(RED_AND_BLUE), **options)
    assert np.abs(pixels.astype(int) - RED_AND_BLUE).max() <= (3 if "jp" in suffix else 0)


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [
        ("a.png", Image.new("L", (2, 2), 77), [77, 77, 77]),
        ("a.png", Image.new("RGBA", (2, 2), (1, 2, 3, 0)), [1, 2, 3]),
        # Luma weights 0.299, 0.587, 0.114.
        ("a.png", Image.new("RGB", (2, 2), (200, 100, 50)), [124]),
        ("a.png", Image.fromarray(DEEP.astype("uint16")), [77, 77, 77]),
        ("a.tif", Image.fromarray(DEEP.astype("<u2")), [77, 77, 77]),
    ],
)
def test_every_mode_is_converted(tmp_path, name, image, expected):
    pixels = decoded(tmp_path / name, image, channels=len(expected))
    np.testing.assert_array_equal(pixels[0, 0], expected)


# Values of more than 16 bits, with fractions or with a sign.
WIDE = [("float32", 0.5), ("int32", 70000), ("int32", -1), ("int32", 200)]
NO_IMAGES = [(Image.fromarray(np.full((1, 1), value, dtype)), "TIFF") for dtype, value in WIDE]
# Pillow would start Ghostscript for a PostScript file.
NO_IMAGES += [(Image.new("RGB", (4, 4)), kind) for kind in ("EPS", "TGA", "ICO", "PDF")]


@pytest.mark.parametrize(("image", "kind"), NO_IMAGES)
def test_other_formats_are_refused(tmp_path, image, kind):
    with pytest.raises(ValueError, match="a.png"):
        decoded(tmp_path / "a.png", image, format=kind)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    upright = PIXELS[0].swapaxes(0, 1) if orientation >= 5 else PIXELS[0]
    upright = np.flip(upright, [axis for axis in (0, 1) if orientation in FLIPPED[axis]])
    pixels = decoded(tmp_path / "a.png", Image.fromarray(PIXELS[0]), upright.shape[:2], exif=exif)
    np.testing.assert_array_equal(pixels, upright)


def test_damaged_images_are_named(paths):
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    paths[3].write_text("no image")
    images = ImageFiles(paths, SIZE)
    np.testing.assert_array_equal(images[[0, 2, 4]], PIXELS[[0, 2, 4]])
    for read, name in ((lambda: images[1], "1.png"), (images.check, "3.png")):
        with pytest.raises(ValueError, match=f"Received: .*{name}: [^/]*. Replace or"):
            read()


@pytest.fixture
def cache(paths, tmp_path, capsys):
    """Returns a function that caches images and reports whether it decoded them."""

    def cached(paths=paths, size=SIZE, **arguments):
        images = ImageFiles(paths, size, **arguments).cached(tmp_path / "cache")
        assert isinstance(images, np.memmap)
        assert not images.flags.writeable
        return np.array(images), f"Decoding {len(paths)} images" in capsys.readouterr().out

    return cached


def test_cache_is_written_once(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "_CHUNK", 2)
    images, was_decoded = cache()
    assert was_decoded
    np.testing.assert_array_equal(images, PIXELS)
    monkeypatch.setattr(image_files, "_decode_into", pytest.fail)
    # The folder may belong to another user.
    monkeypatch.setattr(filelock.FileLock, "acquire", pytest.fail)
    (tmp_path / "cache").chmod(0o500)
    images, was_decoded = cache()
    np.testing.assert_array_equal(images, PIXELS)
    assert not was_decoded


def test_changed_images_are_decoded_again(cache, paths):
    cache()
    for change in ({"size": (8, 6)}, {"channels": 1}, {"paths": paths[::-1]}):
        assert cache(**change)[1]
    Image.fromarray(PIXELS[4]).save(paths[0])
    images, was_decoded = cache()
    np.testing.assert_array_equal(images[0], PIXELS[4])
    assert was_decoded


def test_interrupted_cache_starts_again(cache, tmp_path, monkeypatch):
    decode = image_files._decode_into

    def interrupted(image, path, **form):
        if path.endswith("3.png"):
            raise KeyboardInterrupt
        return decode(image, path, **form)

    monkeypatch.setattr(image_files, "_CHUNK", 1)
    with monkeypatch.context() as patch:
        patch.setattr(image_files, "_decode_into", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache()
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} <= {".lock"}
    np.testing.assert_array_equal(cache()[0], PIXELS)
    (path,) = tmp_path.glob("cache/*.npy")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=f"{path.name}, which is damaged. Delete this file"):
        cache()
