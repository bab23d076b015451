import numpy as np
import pytest
from PIL import Image

from dann.data.input_speed import InputSpeed, speed_table


@pytest.fixture
def photos(tmp_path):
    speed = InputSpeed(images=40, photo_size=(90, 120), image_size=30, batch_size=16)
    speed.make_photos(tmp_path)
    return speed, tmp_path


def test_photos_are_crops_in_two_domains_of_four_classes(photos):
    files = sorted(photos[1].rglob("*.jpg"))
    assert len(files) == 40
    assert {str(file.parent.relative_to(photos[1])) for file in files} == {
        f"{domain}/{label}" for domain in ("source", "target") for label in range(4)
    }
    assert {np.asarray(Image.open(file)).shape for file in files} == {(90, 120, 3)}


def test_all_ways_give_the_same_kind_of_batches_of_the_same_images(photos):
    speed, root = photos
    ways = speed.ways(root)
    assert len(ways) == 4
    specs = [pairs().element_spec for pairs in ways.values()]
    assert all(spec == specs[0] for spec in specs)
    path = root / "source/0/0.jpg"
    reference = Image.open(path).resize((30, 30), Image.Resampling.BILINEAR)
    for name, pairs in ways.items():
        images = np.concatenate([inputs["source"] for inputs, _ in pairs().take(6)])
        distances = np.abs(images.astype(int) - np.asarray(reference)).mean(axis=(1, 2, 3))
        assert distances.min() < (12 if name == "tf.data by hand" else 2), name


def test_every_way_is_measured_in_every_round():
    speed = InputSpeed(40, (90, 120), image_size=30, batch_size=8, rounds=2, seconds=0.1)
    results = speed.measure()
    assert all(rows.shape == (2, 2) for rows in results.values())
    assert all((rows > 0).all() for rows in results.values())


def test_the_table_holds_medians_and_ranges():
    rows = np.array([[100.0, 1.0], [400.0, 4.0], [200.0, 3.0]])
    line = speed_table({"decoding": rows}).splitlines()[1]
    assert line.split() == ["decoding", "200", "(100-400)", "3.00", "(1.00-4.00)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "must be above 0. Received: 32, 0, 5.0, 224"),
        ({"images": 60}, "2.5 times `batch_size`. Received: images=60, batch_size=32"),
        ({"photo_size": (500, 375)}, r"up to 427 .*Received: \[500, 375\]"),
    ],
)
def test_values_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        InputSpeed(**arguments)
