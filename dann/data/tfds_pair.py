"""The reader of TFDS data sets of images."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from dann.checks import check_choice
from dann.data.cache import CACHES, check_memory
from dann.data.domain_pair import DomainPair
from dann.data.image_files import check_image_size
from dann.data.readers import READERS
from dann.data.tfds_images import read_split

_LUMA = np.array([0.2989, 0.587, 0.114], np.float32)


@READERS.register(
    "tfds_pair",
    summary="Two TFDS data sets of images by name.",
    reads="names of two TFDS data sets",
    command="data=tfds data.source=svhn_cropped data.target=mnist",
    config="tfds",
)
def tfds_pair(
    source: str,
    target: str,
    *,
    image_size: int | Sequence[int] | None = None,
    channels: int | None = None,
    source_split: str = "train",
    source_test_split: str = "test",
    target_split: str = "train",
    target_test_split: str = "test",
    cache: str = "memory",
    cache_dir: str = "~/.cache/dann",
    data_dir: str | None = None,
    source_name: str | None = None,
    target_name: str | None = None,
) -> DomainPair:
    """Pairs two TFDS data sets of labelled images; the target's labels are for the oracle.

    `unify` in this file brings the images of both to one size and channel count, and then to
    `height * width * channels` bytes each.

    The target's classes are matched to the source's by name. A label -1 in the target's training
    split means that the class is unknown; no other split may have it.

    Args:
        source: Name of the source data set, `name` or `name/config`, of TFDS or of `dann.data`:
            `mnist_m`, `usps`, `synthetic_digits`, `digits`, `chalk_digits`.
        target: Name of the target data set.
        image_size: Side, or height and width, of the images. Defaults to `None`, the larger of
            both data sets'.
        channels: 1 or 3. Defaults to `None`, the larger of both data sets'.
        source_split: Split of the source to train on, in TFDS's notation, such as `train[:80%]`.
        source_test_split: Split of the source to test on.
        target_split: Split of the target to train on, without its labels.
        target_test_split: Split of the target to test on. A test split must not overlap a training
            split.
        cache: Where decoded images are kept. `"memory"` (default): there, all of them, and in a
            file for the next start; what takes more than the available memory is refused.
            `"disk"`: in a file for each split, which is written beforehand and read batch by
            batch. `"none"`: nowhere, each batch decodes its own; data sets are then prepared with
            TFDS's `array_record` files, and those that were prepared with others are refused.
        cache_dir: Folder for prepared data sets.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory.
        source_name: Name of the source. Defaults to its data set's name.
        target_name: Name of the target. Defaults to its data set's name.

    Raises:
        OSError: If `data_dir` does not exist, `cache_dir` is a file, or there is no room in it.
        TypeError: If `image_size` is not of integers.
        ValueError: If a data set, configuration or split does not exist, splits overlap, the data
            sets do not hold labelled images or their classes differ, a size is missing, a label of
            the source or of a test split is unknown, images do not fit as `cache` says, or a data
            set was prepared from other files than those in `data_dir`.
    """
    from dann.data.builders.prepared import prepared

    check_choice("cache", cache, CACHES)
    by_index = cache == "none"
    builders = {
        name: prepared(name, cache_dir, data_dir, by_index=by_index) for name in (source, target)
    }
    features = {name: _labelled_images(name, builder.info) for name, builder in builders.items()}
    of_source, of_target = builders[source], builders[target]
    _check_disjoint(
        [(of_source, source_split), (of_target, target_split)],
        [(of_source, source_test_split), (of_target, target_test_split)],
    )
    shapes = {name: image.shape for name, (image, _) in features.items()}
    size, depth = _common_form(shapes, image_size, channels)
    names = features[source][1].names
    order = _matched(source, names, target, features[target][1].names)

    form = functools.partial(unify, size=size, channels=depth)
    shape = (*size, depth)
    splits = [
        *((source, split) for split in (source_split, source_test_split)),
        *((target, split) for split in (target_split, target_test_split)),
    ]
    if cache == "memory":
        total = sum(_count(builders[name], split) for name, split in splits)
        check_memory(total * int(np.prod(shape)))

    def read(name, split):
        count = _count(builders[name], split)
        return read_split(builders[name], split, shape, form, count, cache)

    def matched(images, labels):
        return images, np.where(labels < 0, -1, order[labels])

    target_train, target_labels = matched(*read(target, target_split))
    return DomainPair(
        source=source_name or source,
        target=target_name or target,
        source_train=read(source, source_split),
        source_test=read(source, source_test_split),
        target_train=target_train,
        target_test=matched(*read(target, target_test_split)),
        num_classes=len(names),
        class_names=tuple(names),
        target_train_labels=target_labels if (target_labels >= 0).any() else None,
    )


def _count(builder, split):
    """Number of examples in a split; 0 if it is unknown, as of a mocked data set."""
    if not builder.info.splits:
        return 0
    return sum(end - start for _, start, end in _ranges(builder, split))


def _labelled_images(name, info):
    """The features of the image and of the class, under any names."""
    import tensorflow_datasets as tfds

    keys = info.supervised_keys or ()
    # A supervised key may also be a structure of keys.
    features = [info.features[key] for key in keys if isinstance(key, str)]
    kinds = [type(feature) for feature in features]
    if len(keys) != 2 or kinds != [tfds.features.Image, tfds.features.ClassLabel]:
        raise ValueError(
            f"{name} must be a data set of images with a class each. "
            f"Received: supervised keys {info.supervised_keys} of {dict(info.features)}"
        )
    return features


def _check_disjoint(train, test):
    """Raises a `ValueError` if splits to train and to test on, with their builders, overlap."""
    for (builder, split), (other, test_split) in itertools.product(train, test):
        if builder.data_path == other.data_path:
            parts = itertools.product(_ranges(builder, split), _ranges(other, test_split))
            for (name, start, end), (test_name, test_start, test_end) in parts:
                if name == test_name and max(start, test_start) < min(end, test_end):
                    raise ValueError(
                        f"The test split of {builder.info.full_name} must not overlap what is "
                        f"trained on. Received: {split!r} and {test_split!r}"
                    )


def _ranges(builder, split):
    """The parts of whole splits that make up `split`: name, start and end of each."""
    import tensorflow_datasets as tfds

    splits = builder.info.splits
    if not splits:  # a mocked data set does not know them
        return [(split, 0, 1)]
    parts = tfds.core.ReadInstruction.from_spec(split).to_absolute(splits)
    sizes = {name: info.num_examples for name, info in splits.items()}
    return [
        (part.splitname, part.from_ or 0, sizes[part.splitname] if part.to is None else part.to)
        for part in parts
    ]


def _common_form(shapes: dict[str, Any], image_size: Any, channels):
    if image_size is None:
        image_size = [max(shape[axis] or 0 for shape in shapes.values()) for axis in (0, 1)]
        if any(None in shape[:2] for shape in shapes.values()):
            raise ValueError(
                f"Images of several sizes need an `image_size`. Received: {shapes} without one"
            )
    channels = channels or max(shape[-1] for shape in shapes.values())
    return check_image_size(image_size), check_choice("channels", channels, (1, 3))


def unify(image: np.ndarray, size: tuple[int, int], channels: int) -> np.ndarray:
    """Brings an image to a size and a channel count; an image that has both stays bit for bit.

    Resizing is bilinear, antialiased where it shrinks, and does not keep the aspect. Grey is
    repeated; colour becomes its luma. Values are rounded to bytes. An image is uint8
    `(height, width, channels)` with 1 or 3 channels, before and after.
    """
    if image.shape[-1] == 3 and channels == 1:
        # As `tf.image.rgb_to_grayscale` rounds.
        shade = image.astype(np.float32) / np.float32(255) @ _LUMA
        image = (shade * np.float32(255.5)).astype(np.uint8)[..., np.newaxis]
    if image.shape[:2] != tuple(size):
        planes = [_resized(image[..., channel], size) for channel in range(image.shape[-1])]
        image = np.clip(np.rint(np.stack(planes, axis=-1)), 0, 255).astype(np.uint8)
    return np.repeat(image, 3, axis=-1) if image.shape[-1] < channels else image


def _resized(plane, size):
    # Pillow rounds bytes after each of the two axes, floats never.
    height, width = size
    floats = Image.fromarray(plane.astype(np.float32))
    return np.asarray(floats.resize((width, height), Image.Resampling.BILINEAR))


def _matched(source, names, target, target_names):
    """The source's label of the same class, for each label of the target."""
    if set(names) != set(target_names):
        raise ValueError(
            "Both domains must have the same classes. Received: "
            f"only in {source}: {sorted(set(names) - set(target_names))}, "
            f"only in {target}: {sorted(set(target_names) - set(names))}"
        )
    return np.array([names.index(name) for name in target_names])
