"""Training pairs from folders of JPEGs, beside a `tf.data` pipeline by hand."""

import pathlib
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.timing import Comparison, in_turns
from dann.data.image_folder import image_folder

_CLASSES = 4
_DOMAINS = ("source", "target")
_WARM_UP = 4  # batches
_PHOTO = (375, 500)


def image_pairs(
    settings: Any, images: int = 400, image_size: int = 224, batch_size: int = 32
) -> list[Comparison]:
    """Measures pairs of batches from two folders of JPEGs, and those of a pipeline by hand.

    The photos are crops of scikit-learn's two, in a temporary folder. Nothing else is done with
    the batches. Every turn begins a pipeline anew; its first batches do not count.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.in_turns`.
        images: Number of photos in both domains together.
        image_size: Side of the images in a batch.
        batch_size: Images of each domain in a batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_photos(root, images)
        ways = ways_of(root, image_size, batch_size)
        rounds, seconds, both = settings.rounds, settings.seconds, 2 * batch_size
        times = in_turns(ways, rounds, seconds, begin=_warm, units=both)
    notes = {name: f"{np.median(1 / one.wall):.0f} images a second" for name, one in times.items()}
    return [Comparison(f"an image, {batch_size} + {batch_size} of {images}", times, notes=notes)]


def make_photos(root: pathlib.Path, images: int) -> None:
    """Writes the photos, `root/domain/class/number.jpg`."""
    rng = np.random.default_rng(0)
    photos = load_sample_images().images
    height, width = _PHOTO
    for number in range(images):
        photo = photos[rng.integers(len(photos))]
        row = rng.integers(photo.shape[0] - height + 1)
        column = rng.integers(photo.shape[1] - width + 1)
        place = root / _DOMAINS[number % 2] / str(number // 2 % _CLASSES)
        place.mkdir(parents=True, exist_ok=True)
        crop = photo[row : row + height, column : column + width]
        Image.fromarray(crop).save(place / f"{number}.jpg", quality=90)


def ways_of(
    root: pathlib.Path, image_size: int, batch_size: int
) -> dict[str, Callable[[], Iterable[Any]]]:
    """Returns what is compared, by name: functions that begin the pairs of batches anew."""
    domains = {
        name: image_folder(root, *_DOMAINS, image_size, cache=cache, cache_dir=str(root))
        for name, cache in (("dann, from the cache", True), ("dann, decoding", False))
    }
    return {
        **{name: partial(one.batches, batch_size) for name, one in domains.items()},
        "tf.data by hand": partial(_by_hand, root, image_size, batch_size, antialias=False),
        "tf.data, antialiased": partial(_by_hand, root, image_size, batch_size, antialias=True),
    }


def _by_hand(root, image_size, batch_size, antialias):
    """Pairs as they are commonly written with TensorFlow alone."""

    def decoded(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(image, (image_size, image_size), antialias=antialias)
        return tf.cast(tf.round(image), tf.uint8), label

    parts = []
    for domain in _DOMAINS:
        paths = sorted(str(path) for path in (root / domain).rglob("*.jpg"))
        labels = np.array([int(pathlib.Path(path).parent.name) for path in paths])
        examples = tf.data.Dataset.from_tensor_slices((paths, labels))
        examples = examples.shuffle(len(paths)).repeat().map(decoded, tf.data.AUTOTUNE)
        parts.append(examples.batch(batch_size, drop_remainder=True))
    pairs = tf.data.Dataset.zip(*parts).map(
        lambda source, target: ({"source": source[0], "target": target[0]}, source[1])
    )
    return pairs.prefetch(tf.data.AUTOTUNE)


def _warm(pairs):
    """Begins the batches, and returns a function that gives the next."""
    batches = iter(pairs())
    for _ in range(_WARM_UP):
        next(batches)
    return partial(next, batches)
