"""The images and labels of a split of a TFDS data set, decoded once into files."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dann.data.image_cache import decoded_once

_CHUNK = 256


def keys_of(name: str, info: Any) -> tuple[Any, str | None]:
    """Returns the names of the features of the image and of the class; `None` without classes.

    Args:
        name: Name of the data set.
        info: What TFDS knows about it: its supervised keys name the image and its class, or else it
            has a single image.

    Raises:
        ValueError: If there is no image, or there are several of which none is named.
    """
    import tensorflow_datasets as tfds

    features = info.features
    images = [key for key, one in features.items() if isinstance(one, tfds.features.Image)]
    keys = info.supervised_keys or (images if len(images) == 1 else ())
    image, *others = [key if isinstance(key, str) else None for key in keys] or [None]
    if image not in images:
        raise ValueError(
            f"{name} must be a data set of images. "
            f"Received: supervised keys {info.supervised_keys} of {dict(features)}"
        )
    label = others[0] if others else None
    return image, label if label and isinstance(features[label], tfds.features.ClassLabel) else None


def read_split(
    builder: Any,
    split: str,
    keys: tuple[str, str | None],
    shape: Sequence[int],
    form: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images of a split, a memory map uint8 `(n, *shape)`, and labels int64 `(n,)`.

    The first time they are read into files beside the data set. Labels are -1 without classes.

    Args:
        builder: Builder of a data set that is prepared.
        split: The split, in TFDS's notation.
        keys: Names of the features of the image and of the class; see `keys_of`.
        shape: Height, width and channels of the images.
        form: Brings an image of any size to that shape.
    """
    stem = re.sub(r"[^\w%:+-]", "_", f"{split}-{'x'.join(map(str, shape))}")
    path = builder.data_path / "decoded" / f"{stem}.npy"
    labels_path = path.with_name(f"{stem}-labels.npy")

    def parts():
        labels, examples = [], _examples(builder, split, keys)
        while part := list(itertools.islice(examples, _CHUNK)):
            labels += [label for _, label in part]
            yield np.stack([form(image) for image, _ in part])
        np.save(labels_path, np.array(labels, np.int64))  # before the images are renamed

    count = builder.info.splits[split].num_examples
    images = decoded_once(path, (count, *shape), parts)
    return images, np.load(labels_path)


def _examples(builder, split, keys) -> Iterator[Any]:
    """The images and labels of a split in their order."""
    import tensorflow_datasets as tfds

    kind = builder.info.file_format
    if kind is not None and kind in type(kind).with_random_access():  # without TensorFlow
        records = builder.as_data_source(split=split)
    else:
        records = tfds.as_numpy(builder.as_dataset(split=split))
    image, label = keys
    for record in records:
        yield record[image], record[label] if label else -1
