"""Training pairs from folders of JPEGs, beside a `tf.data` pipeline by hand."""

import pathlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.checks import check_integer, check_number
from dann.data.image_folder import image_folder

_CLASSES = 4
_DOMAINS = ("source", "target")
_WARM_UP = 4  # batches


@SUITES.register("input", summary="Training pairs from two folders of JPEGs.")
class InputSuite:
    """Measures pairs of batches from two folders of JPEGs, and those of a pipeline by hand.

    The photos are crops of scikit-learn's two, in a temporary folder. Nothing else is done with
    the batches. Every turn begins a pipeline anew; its first batches do not count.

    Args:
        images: Number of photos in both domains together, at least 40 and `2.5 * batch_size`, so
            that every class is in both parts of the source.
        photo_size: Height and width of the photos, at most 427 and 640.
        image_size: Side of the images in a batch.
        batch_size: Images of each domain in a batch.
        rounds: See `benchmarks.timing.in_turns`.
        seconds: The same.
    """

    def __init__(
        self,
        images: int = 400,
        photo_size: Sequence[int] = (375, 500),
        image_size: int = 224,
        batch_size: int = 32,
        rounds: int = 5,
        seconds: float = 5.0,
    ):
        self.image_size = check_integer("image_size", image_size, 1)
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.rounds = check_integer("rounds", rounds, 1)
        self.seconds = check_number("seconds", seconds, 0, above=True)
        # A fifth of each domain is held out.
        if check_integer("images", images, 1) < max(5 * batch_size / 2, 10 * _CLASSES):
            raise ValueError(
                f"`images` must be at least {10 * _CLASSES} and 2.5 times `batch_size`. "
                f"Received: images={images}, batch_size={batch_size}"
            )
        sizes = [check_integer("photo_size", size, 1) for size in photo_size]
        if len(sizes) != 2 or sizes[0] > 427 or sizes[1] > 640:
            raise ValueError(
                "`photo_size` must be a height up to 427 and a width up to 640. "
                f"Received: {list(photo_size)}"
            )
        self.images = images
        self.photo_size = tuple(photo_size)

    def measure(self) -> list[Comparison]:
        """Returns what an image takes, by way."""
        pair = 2 * self.batch_size
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            self.make_photos(root)
            ways = self.ways(root)
            times = in_turns(
                ways, self.rounds, self.seconds, begin=_warm, units=pair, warm_up=False
            )
        speeds = {name: 1 / of_way.wall for name, of_way in times.items()}
        notes = {
            name: f"{np.median(speed):.0f} ({speed.min():.0f}-{speed.max():.0f}) images a second"
            for name, speed in speeds.items()
        }
        task = f"an image, {self.batch_size} + {self.batch_size} of {self.images}"
        return [Comparison(task, times, notes=notes)]

    def make_photos(self, root: pathlib.Path) -> None:
        """Writes the photos, `root/domain/class/number.jpg`."""
        rng = np.random.default_rng(0)
        photos = load_sample_images().images
        height, width = self.photo_size
        for number in range(self.images):
            photo = photos[rng.integers(len(photos))]
            row = rng.integers(photo.shape[0] - height + 1)
            column = rng.integers(photo.shape[1] - width + 1)
            crop = photo[row : row + height, column : column + width]
            place = root / _DOMAINS[number % 2] / str(number // 2 % _CLASSES)
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(crop).save(place / f"{number}.jpg", quality=90)

    def ways(self, root: pathlib.Path) -> dict[str, Callable[[], Iterable[Any]]]:
        """Returns what is compared, by name: functions that begin the pairs of batches anew."""
        domains = {
            name: image_folder(root, *_DOMAINS, self.image_size, cache=cache, cache_dir=str(root))
            for name, cache in (("dann, from the cache", True), ("dann, decoding", False))
        }
        return {
            **{name: partial(pair.batches, self.batch_size) for name, pair in domains.items()},
            "tf.data by hand": partial(self._by_hand, root, antialias=False),
            "tf.data by hand, antialiased": partial(self._by_hand, root, antialias=True),
        }

    def _by_hand(self, root, antialias):
        """Pairs as they are commonly written with TensorFlow alone."""

        def decoded(path, label):
            image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
            size = (self.image_size, self.image_size)
            image = tf.image.resize(image, size, antialias=antialias)
            return tf.cast(tf.round(image), tf.uint8), label

        parts = []
        for domain in _DOMAINS:
            paths = sorted(str(path) for path in (root / domain).rglob("*.jpg"))
            labels = np.array([int(pathlib.Path(path).parent.name) for path in paths])
            examples = tf.data.Dataset.from_tensor_slices((paths, labels))
            examples = examples.shuffle(len(paths)).repeat().map(decoded, tf.data.AUTOTUNE)
            parts.append(examples.batch(self.batch_size, drop_remainder=True))
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
