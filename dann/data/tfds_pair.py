"""Any two TFDS data sets of images as a pair."""

import itertools
import numbers
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from dann.data.builders.prepared import prepared
from dann.data.cache import kept
from dann.data.domain_pair import DomainPair
from dann.data.images import unify


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
    cache_dir: str = "~/.cache/dann",
    data_dir: str | None = None,
    source_name: str | None = None,
    target_name: str | None = None,
) -> DomainPair:
    """Pairs two TFDS data sets of labelled images, the target's labels kept for the oracle.

    Images of both come to one size and channel count; see `dann.data.images.unify`. They are held
    in memory: `height * width * channels` bytes each.

    The target's classes are matched to the source's by name. Its label -1, as in splits without
    labels, means that the class is not known; no other part may have it.

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
        target_test_split: Split of the target to test on. No test split may overlap what is trained
            on.
        cache_dir: Where prepared data sets are kept.
        data_dir: Where raw files lie that need not be downloaded; `~` is the home directory.
        source_name: What to call the source. Defaults to its data set's name.
        target_name: What to call the target.

    Raises:
        OSError: If `data_dir` is not there, or `cache_dir` is no folder.
        ValueError: If a data set, configuration or split is not there, splits overlap, the data
            sets are not of labelled images or their classes differ, a size is missing, a label to
            train the source on or to test with is not known, or a data set was prepared from other
            files than those in `data_dir`.
    """
    builders = {name: prepared(name, cache_dir, data_dir) for name in (source, target)}
    features = {name: _labelled_images(name, builder.info) for name, builder in builders.items()}
    of_source, of_target = builders[source], builders[target]
    _check_disjoint(
        [(of_source, source_split), (of_target, target_split)],
        [(of_source, source_test_split), (of_target, target_test_split)],
    )
    shapes = {name: image.shape for name, (image, _) in features.items()}
    size, channels = _common_form(shapes, image_size, channels)
    names = features[source][1].names
    order = _matched(source, names, target, features[target][1].names)

    def read(name, split):
        return _read(builders[name], split, size, channels)

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


def _read(builder, split, size, channels):
    """A split as arrays: images, uint8 `(n, height, width, channels)`, and labels, `(n,)`."""

    def form(image, label):
        return unify(image, size, channels), label

    def decode():
        examples = builder.as_dataset(split=split, as_supervised=True)
        batches = examples.map(form, tf.data.AUTOTUNE).batch(1024).prefetch(1)
        images, labels = zip(*tfds.as_numpy(batches), strict=True)
        return {"images": np.concatenate(images), "labels": np.concatenate(labels)}

    form_name = "x".join(map(str, (*size, channels)))
    stem = re.sub(r"[^\w%:+-]", "_", f"{split}-{form_name}")
    arrays = kept(builder.data_path / "decoded" / f"{stem}.npz", decode)
    return arrays["images"], arrays["labels"].astype(np.int64)


def _labelled_images(name, info):
    """The features that are the image and the class, whatever a data set calls them."""
    keys = info.supervised_keys or ()
    # A key may also be a structure of keys.
    features = [info.features[key] for key in keys if isinstance(key, str)]
    kinds = [type(feature) for feature in features]
    if len(keys) != 2 or kinds != [tfds.features.Image, tfds.features.ClassLabel]:
        raise ValueError(
            f"{name} must be a data set of images with a class each. "
            f"Received: supervised keys {info.supervised_keys} of {dict(info.features)}"
        )
    return features


def _check_disjoint(train, test):
    """Refuses a test split with examples that are trained on, in whichever role.

    Both are lists of a builder and the split of it.
    """
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
    """Name, start and end of the stretches of whole splits that `split` is made of."""
    splits = builder.info.splits
    if not splits:  # mocked: nothing is known of them
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
    size = [image_size] * 2 if isinstance(image_size, numbers.Number) else list(image_size)
    channels = channels or max(shape[-1] for shape in shapes.values())
    whole = all(
        isinstance(side, numbers.Integral) and not isinstance(side, bool) and side > 0
        for side in size
    )
    if channels not in (1, 3) or len(size) != 2 or not whole:
        raise ValueError(
            "Expected `image_size`, a side or a height and a width, in whole pixels above 0, and "
            f"`channels` 1 or 3. Received: image_size={image_size}, channels={channels}"
        )
    return tuple(size), channels


def _matched(source, names, target, target_names):
    """The source's label for each label of the target."""
    if set(names) != set(target_names):
        raise ValueError(
            "Both domains must have the same classes. Received: "
            f"only in {source}: {sorted(set(names) - set(target_names))}, "
            f"only in {target}: {sorted(set(target_names) - set(names))}"
        )
    return np.array([names.index(name) for name in target_names])
