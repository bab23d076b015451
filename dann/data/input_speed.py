"""How fast training pairs come from folders of JPEGs."""

import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from dann.data.image_folder import image_folder

_CLASSES = 4
_DOMAINS = ("source", "target")
_WARM_UP = 4  # batches


class InputSpeed:
    """Measures pairs of batches from two folders of JPEGs, and those of a pipeline by hand.

    The photos are crops of scikit-learn's two, in a temporary folder. The ways take turns; nothing
    else is done with the batches.

    Args:
        images: Number of photos in both domains together, at least `2 * batch_size` and enough
            that every class is in both parts of the source.
        photo_size: Height and width of the photos, at most 427 and 640.
        image_size: Side of the images in a batch.
        batch_size: Images of each domain in a batch.
        rounds: How often each way is measured.
        seconds: How long each time.

    Raises:
        ValueError: If an argument is out of range.
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
        if batch_size < 1 or rounds < 1 or seconds <= 0 or image_size < 1:
            raise ValueError(
                "`batch_size`, `rounds`, `seconds` and `image_size` must be above 0. Received: "
                f"{batch_size}, {rounds}, {seconds}, {image_size}"
            )
        # A fifth of each domain is held out.
        if images < max(5 * batch_size / 2, 10 * _CLASSES):
            raise ValueError(
                f"`images` must be at least {10 * _CLASSES} and 2.5 times `batch_size`. "
                f"Received: images={images}, batch_size={batch_size}"
            )
        if not (0 < photo_size[0] <= 427 and 0 < photo_size[1] <= 640):
            raise ValueError(
                "`photo_size` must be a height up to 427 and a width up to 640. "
                f"Received: {list(photo_size)}"
            )
        self.images = images
        self.photo_size = tuple(photo_size)
        self.image_size = image_size
        self.batch_size = batch_size
        self.rounds = rounds
        self.seconds = seconds

    def measure(self) -> dict[str, np.ndarray]:
        """Returns images a second and CPU milliseconds an image, `(rounds, 2)`, by way."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            self.make_photos(root)
            ways = self.ways(root)
            results = {name: [] for name in ways}
            for _ in range(self.rounds):
                for name, pairs in ways.items():
                    results[name].append(self._speed(pairs()))
        return {name: np.array(rows) for name, rows in results.items()}

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

    def ways(self, root: pathlib.Path) -> dict[str, Callable[[], tf.data.Dataset]]:
        """Returns what is compared, by name: functions that begin the pairs of batches anew."""
        domains = {
            name: image_folder(root, *_DOMAINS, self.image_size, cache=cache, cache_dir=str(root))
            for name, cache in (("dann, from the cache", True), ("dann, decoding", False))
        }
        return {
            **{name: partial(pair.batches, self.batch_size) for name, pair in domains.items()},
            "tf.data by hand": partial(self._by_hand, root, antialias=False),
            "the same, antialiased": partial(self._by_hand, root, antialias=True),
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

    def _speed(self, pairs):
        batches = iter(pairs)
        for _ in range(_WARM_UP):
            next(batches)
        count, wall, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < self.seconds:
            next(batches)
            count += 2 * self.batch_size
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return count / wall, 1000 * cpu / count


def speed_table(results: Mapping[str, np.ndarray]) -> str:
    """Formats what `InputSpeed.measure` returns: medians, and the range over the rounds."""
    lines = [f"{'':<24}{'images a second':>24}{'CPU ms an image':>24}"]
    for name, rows in results.items():
        cells = [
            f"{median:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
            for median, low, high, digits in zip(
                np.median(rows, axis=0), rows.min(axis=0), rows.max(axis=0), (0, 2), strict=True
            )
        ]
        lines.append(f"{name:<24}{cells[0]:>24}{cells[1]:>24}")
    return "\n".join(lines)
