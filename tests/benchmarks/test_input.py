import itertools

import keras
import numpy as np
import pytest
from PIL import Image

from benchmarks.suites.input import InputSuite


@pytest.fixture
def photos(tmp_path):
    suite = InputSuite(images=40, photo_size=(90, 120), image_size=30, batch_size=16)
    suite.make_photos(tmp_path)
    return suite, tmp_path


def test_photos_are_crops_in_two_domains_of_four_classes(photos):
    files = sorted(photos[1].rglob("*.jpg"))
    assert len(files) == 40
    assert {str(file.parent.relative_to(photos[1])) for file in files} == {
        f"{domain}/{label}" for domain in ("source", "target") for label in range(4)
    }
    assert {np.asarray(Image.open(file)).shape for file in files} == {(90, 120, 3)}


def test_all_ways_give_the_same_kind_of_batches_of_the_same_images(photos):
    suite, root = photos
    ways = suite.ways(root)
    assert len(ways) == 4
    firsts = [next(iter(pairs())) for pairs in ways.values()]
    kinds = [
        keras.tree.map_structure(lambda part: f"{tuple(part.shape)} {np.asarray(part).dtype}", one)
        for one in firsts
    ]
    assert all(kind == kinds[0] for kind in kinds)
    path = root / "source/0/0.jpg"
    reference = Image.open(path).resize((30, 30), Image.Resampling.BILINEAR)
    for name, pairs in ways.items():
        images = np.concatenate([inputs["source"] for inputs, _ in itertools.islice(pairs(), 6)])
        distances = np.abs(images.astype(int) - np.asarray(reference)).mean(axis=(1, 2, 3))
        assert distances.min() < (12 if name == "tf.data by hand" else 2), name


def test_every_way_is_measured_in_every_round():
    suite = InputSuite(40, (90, 120), image_size=30, batch_size=8, rounds=2, seconds=0.1)
    (comparison,) = suite.measure()
    assert len(comparison.times) == len(comparison.notes) == 4
    for name, times in comparison.times.items():
        assert (times.cpu.shape, times.wall.shape) == ((2,), (2,))
        speed = float(comparison.notes[name].split()[0])
        assert speed == pytest.approx(np.median(1 / times.wall), abs=0.5)
