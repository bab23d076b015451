"""`scripts/train.py` on folders of images, some of which are broken."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

CLASSES = ["circle", "cross", "square", "stripes"]


def shape(name, rng):
    """A shape in grey on a dark ground `(20, 24, 3)`."""
    rows, columns = np.mgrid[:20, :24]
    rows, columns = rows - rng.uniform(8, 12), columns - rng.uniform(10, 14)
    inside = {
        "circle": rows**2 + columns**2 < 40,
        "cross": np.minimum(abs(rows), abs(columns)) < 2,
        "square": np.maximum(abs(rows), abs(columns)) < 6,
        "stripes": rows.astype(int) % 4 < 2,
    }[name]
    grey = np.where(inside, 200, 40) + rng.normal(0, 10, inside.shape)
    return np.repeat(np.clip(grey, 0, 255).astype("uint8")[..., np.newaxis], 3, axis=-1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`data`: 240 shapes, and 156 as negatives of which two are broken and no class is stripes."""
    folder = tmp_path_factory.mktemp("folder")
    rng = np.random.default_rng(0)
    for domain, count, ending in (("plain", 60, "png"), ("negative", 52, "jpg")):
        for name in CLASSES:
            place = folder / "data" / domain / name
            place.mkdir(parents=True)
            for number in range(count):
                pixels = shape(name, rng)
                image = Image.fromarray(255 - pixels if domain == "negative" else pixels)
                image.save(place / f"{number}.{ending}")
    shutil.rmtree(folder / "data/negative/stripes")
    (folder / "data/negative/cross/7.jpg").write_bytes(b"no image")
    whole = (folder / "data/negative/square/11.jpg").read_bytes()
    (folder / "data/negative/square/11.jpg").write_bytes(whole[: len(whole) // 2])
    return folder


DATA = ["data=image_folder", "data.root=data", "data.source=plain", "data.target=negative"]
SMALL = ["data.image_size=16", "trainer.steps=6", "trainer.steps_per_epoch=3", "compare=false"]


@pytest.fixture
def run(folder, run_here):
    def train(*arguments):
        short = ["network=cnn", *SMALL, "trainer.batch_size=16", "hydra.run.dir=run"]
        return run_here("train.py", [*arguments, *short], folder)

    return train


@pytest.fixture
def refused(folder, check_refused):
    def check(result, *messages):
        check_refused(result, *messages, silent=False)  # it tells what it decodes
        assert not (folder / "run").exists()

    return check


def test_a_value_that_is_not_given_is_named(run, refused):
    result = run(*DATA[:3])
    refused(result)
    assert re.search(r"\btarget\b", result.stderr)


def test_a_class_that_the_target_lacks_is_named(run, refused):
    refused(run(*DATA), "only in plain: stripes; only in negative: (none)")


def test_broken_images_are_named_and_without_them_it_trains(folder, run, refused):
    refused(run(*DATA, "data.classes=source"), "2 of 156 that are not", "negative/cross/7.jpg")
    for name in ("cross/7.jpg", "square/11.jpg"):
        (folder / "data/negative" / name).unlink()
    result = run(*DATA, "data.classes=source")
    assert (result.returncode, result.stderr) == (0, "")
    summary = json.loads((folder / "run/summary.json").read_text())
    assert (summary["source"], summary["target"], summary["steps"]) == ("plain", "negative", 6)
    assert summary["class_names"] == CLASSES
    assert 0 <= summary["target/accuracy"] <= 1
    assert (folder / "run/figures/samples.png").is_file()
    shutil.rmtree(folder / "run")
