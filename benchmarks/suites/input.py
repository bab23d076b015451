"""Training pairs from folders of JPEGs, compared with a plain `tf.data` pipeline."""

import pathlib
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.timing import Comparison, time_in_turns
from dann.data.image_folder import image_folder

_CLASSES = 4
_DOMAINS = ("source", "target")
_WARM_UP = 4  # batches
_PHOTO = (375, 500)


def measure_input(
    settings: Any, images: int = 400, image_size: int = 224, batch_size: int = 32
) -> list[Comparison]:
    """Measures pairs of batches from two folders of JPEGs, and a plain `tf.data` pipeline.

    The photos are crops of scikit-learn's two sample images, in a temporary folder. The batches are
    not processed further. Each turn restarts the pipeline; its first batches are not timed.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.time_in_turns`.
        images: Number of photos in both domains together.
        image_size: Side of the images in a batch.
        batch_size: Images of each domain in a batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_photos(root, images)
        programs = make_programs(root, image_size, batch_size)
        rounds, seconds, units = settings.rounds, settings.seconds, 2 * batch_size
        times = time_in_turns(programs, rounds, seconds, prepare=_warm_up, units=units)
    rates = {name: np.median(1 / program.wall) for name, program in times.items()}
    notes = {name: f"{rate:.0f} images per second" for name, rate in rates.items()}
    return [Comparison(f"an image, {batch_size} + {batch_size} of {images}", times, notes=notes)]


def make_photos(root: pathlib.Path, images: int) -> None:
    """Writes the photos to `root/<domain>/<class>/<number>.jpg`."""
    rng = np.random.default_rng(0)
    photos = load_sample_images().images
    height, width = _PHOTO
    for number in range(images):
        photo = photos[rng.integers(len(photos))]
        row = rng.integers(photo.shape[0] - height + 1)
        column = rng.integers(photo.shape[1] - width + 1)
        folder = root / _DOMAINS[number % 2] / str(number // 2 % _CLASSES)
        folder.mkdir(parents=True, exist_ok=True)
        crop = photo[row : row + height, column : column + width]
        Image.fromarray(crop).save(folder / f"{number}.jpg", quality=90)


def make_programs(
    root: pathlib.Path, image_size: int, batch_size: int
) -> dict[str, Callable[[], Iterable[Any]]]:
    """Returns the programs by name: functions that start an iterable of pairs of batches."""
    domains = {
        name: image_folder(root, *_DOMAINS, image_size, cache=cache, cache_dir=str(root))
        for name, cache in (("dann, from the cache", True), ("dann, decoding", False))
    }
    return {
        **{name: partial(pair.batches, batch_size) for name, pair in domains.items()},
        "handwritten tf.data": partial(_tf_data, root, image_size, batch_size, antialias=False),
        "tf.data, antialiased": partial(_tf_data, root, image_size, batch_size, antialias=True),
    }


def _tf_data(root, image_size, batch_size, antialias):
    """Returns pairs of batches, written with TensorFlow alone in the usual style."""

    def decode(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(image, (image_size, image_size), antialias=antialias)
        return tf.cast(tf.round(image), tf.uint8), label

    parts = []
    for domain in _DOMAINS:
        paths = sorted(str(path) for path in (root / domain).rglob("*.jpg"))
        labels = np.array([int(pathlib.Path(path).parent.name) for path in paths])
        examples = tf.data.Dataset.from_tensor_slices((paths, labels))
        examples = examples.shuffle(len(paths)).repeat().map(decode, tf.data.AUTOTUNE)
        parts.append(examples.batch(batch_size, drop_remainder=True))
    pairs = tf.data.Dataset.zip(*parts).map(
        lambda source, target: ({"source": source[0], "target": target[0]}, source[1])
    )
    return pairs.prefetch(tf.data.AUTOTUNE)


def _warm_up(pairs):
    """Starts the pipeline and returns a function that gets the next batch."""
    batches = iter(pairs())
    for _ in range(_WARM_UP):
        next(batches)
    return partial(next, batches)
