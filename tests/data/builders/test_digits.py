import hashlib
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from sklearn.datasets import load_digits

from dann.data.builders.chalk_digits import _digits
from dann.data.builders.prepared import prepared


@pytest.fixture(scope="module")
def splits(cache):
    builder: Any = prepared("digits", str(cache))
    return {
        split: [
            (example["image"], int(example["label"]))
            for example in tfds.as_numpy(builder.as_dataset(split=split))
        ]
        for split in ("train", "test")
    }


def test_every_digit_is_there_once_with_its_label(splits):
    assert (len(splits["train"]), len(splits["test"])) == (1198, 599)
    image, _ = splits["train"][0]
    assert (image.shape, image.dtype) == ((8, 8, 1), np.uint8)
    data: Any = load_digits()
    bytes_of_shade = np.array([round(255 * shade / 16) for shade in range(17)], "uint8")
    expected = bytes_of_shade[data.images.astype(int)]
    assert (bytes_of_shade[0], bytes_of_shade[8], bytes_of_shade[16]) == (0, 128, 255)
    found = [(image.tobytes(), label) for part in splits.values() for image, label in part]
    assert sorted(found) == sorted(
        (image.tobytes(), int(label)) for image, label in zip(expected, data.target, strict=True)
    )


def test_no_digit_that_chalk_digits_tests_on_is_trained_on(splits):
    ink, _ = _digits("test")
    images = {np.rint(255 * digit + 1e-6).astype("uint8").tobytes() for digit in ink}
    assert images == {image.tobytes() for image, _ in splits["test"]}
    assert not images & {image.tobytes() for image, _ in splits["train"]}


def test_the_split_is_the_same_everywhere(splits):
    images = sorted(image.tobytes() for image, _ in splits["test"])
    assert hashlib.sha256(b"".join(images)).hexdigest() == (
        "c9600630c418f6d2cb7b2aef2b93d7868f08933a6fcffb6b19cc5449a56a97b4"
    )


def test_both_splits_have_every_class(splits):
    for examples in splits.values():
        assert np.bincount([label for _, label in examples]).min() >= 0.05 * len(examples)
