"""Randomly damaged files: each is refused in one line, or read as it is."""

import csv
import io
import math
import time
import warnings

import numpy as np
import pytest
from PIL import Image
from support.corruptions import mutated
from support.peak_memory import peak_memory

from dann.data import csv_table, npz
from dann.data.csv_parser import read_tables
from dann.data.image_files import ImageFiles

REFUSALS = (ValueError, TypeError, OSError)
# How many mutations are tried: a few always, and the rest by `pytest -m slow`.
COUNTS = [pytest.param(40, id="40"), pytest.param(500, id="500", marks=pytest.mark.slow)]


def tally(outcomes, most, name):
    """Prints what happened, and checks that something was refused within the memory."""
    read = sum(outcomes)
    print(f"{name}: {len(outcomes)} mutations, {len(outcomes) - read} refused, {read} read")
    print(f"{name}: at most {most:.0f} MB")
    assert len(outcomes) - read > 0


def check_one_line(error):
    assert str(error)
    assert len(str(error).splitlines()) == 1


def parts_of(domains):
    arrays = [*domains.source_train, *domains.source_test, domains.target_train]
    return [*arrays, *domains.target_test, domains.target_train_labels]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mutated_npz_files(tmp_path, count, save):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 8, 2)).astype("float32"), np.arange(30) % 3
    for name in ("a", "b"):
        save(tmp_path / f"{name}.npz", x=x, y=y, x_test=x[:9], y_test=y[:9])
    content = (tmp_path / "b.npz").read_bytes()
    expected = parts_of(npz(tmp_path / "a.npz", tmp_path / "b.npz"))
    outcomes = []
    with peak_memory() as peak:
        for _ in range(count):
            (tmp_path / "b.npz").write_bytes(mutated(content, rng))
            try:
                found = parts_of(npz(tmp_path / "a.npz", tmp_path / "b.npz"))
            except REFUSALS as error:
                check_one_line(error)
                outcomes.append(False)
                continue
            for array, wanted in zip(found, expected, strict=True):
                np.testing.assert_array_equal(array, wanted)
            outcomes.append(True)
        tally(outcomes, peak(), f"npz, {save.__name__}")
        assert peak() < 50


def table(rng):
    rows = [["age", "city", "income", "label"]]
    for row in range(40):
        city = ["oslo", "bergen, vest", "", 'the "old" town'][row % 4]
        rows.append(
            [int(rng.integers(18, 80)), city, round(rng.normal(), 4), ["no", "yes"][row % 2]]
        )
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def check_cells(path, found):
    """Compares a table with the cells of Python's own reader."""
    rows = list(
        csv.reader(
            io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), skipinitialspace=True
        )
    )
    header, *rows = [row for row in rows if row]
    header = [name.strip() for name in header]
    (tables, columns, texts) = found
    assert len(tables["target"].labels) == len(rows)
    for name in header:
        cells = [row[header.index(name)].strip() for row in rows]
        if name == "label":
            assert tables["target"].labels == cells
        elif name in texts:
            assert tables["target"].texts[name] == cells
        else:
            numbers = tables["target"].numbers[:, columns.index(name)]
            for number, cell in zip(numbers, cells, strict=True):
                missing = cell.lower() in ("", "na", "nan", "+nan", "-nan")
                assert math.isnan(number) if missing else number == float(cell)


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_tables(tmp_path, count):
    rng = np.random.default_rng(4)
    content = table(rng)
    paths = {"source": tmp_path / "a.csv", "target": tmp_path / "b.csv"}
    paths["source"].write_bytes(content)
    outcomes = []
    with peak_memory() as peak:
        for _ in range(count):
            paths["target"].write_bytes(mutated(content, rng))
            try:
                found = read_tables(paths, "label", None, None, ",")
                domains = csv_table(*paths.values(), "label")
            except REFUSALS as error:
                check_one_line(error)
                outcomes.append(False)
                continue
            check_cells(paths["target"], found)
            assert all(np.isfinite(part).all() for part in parts_of(domains))
            outcomes.append(True)
        tally(outcomes, peak(), "csv")
        assert peak() < 50


FORMATS = {
    "a.bmp": {},
    "a.gif": {},
    "a.jpg": {"quality": 90},
    "a.png": {},
    "a.ppm": {},
    "a.tif": {"compression": "tiff_lzw"},
    "a.webp": {"lossless": True},
}


@pytest.mark.parametrize(
    "count", [pytest.param(10, id="10"), pytest.param(500, id="500", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", FORMATS)
def test_mutated_images(tmp_path, count, name):
    """What is read is what Pillow alone reads; no image of more than a million pixels is."""
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (40, 50, 3)).astype("uint8")
    Image.fromarray(pixels).save(tmp_path / name, **FORMATS[name])
    content = (tmp_path / name).read_bytes()
    images = ImageFiles([tmp_path / name], (40, 50), max_pixels=1_000_000)
    outcomes = []
    with peak_memory() as peak, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of damage that it reads over
        for _ in range(count):
            (tmp_path / name).write_bytes(mutated(content, rng))
            start = time.monotonic()
            error = images.error_of(0)
            assert time.monotonic() - start < 5
            outcomes.append(error is None)
            if error is None:
                found = images[0]
                with Image.open(tmp_path / name) as image:
                    assert image.width * image.height <= 1_000_000
                    expected = np.asarray(image.convert("RGB").resize((50, 40), 2))
                np.testing.assert_array_equal(found, expected)
            else:
                with pytest.raises(ValueError, match=r"Expected an image. Received: .*a\.\w+$"):
                    images[0]
        tally(outcomes, peak(), name)
        assert peak() < 100
