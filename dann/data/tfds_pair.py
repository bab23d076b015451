"""The readers of TFDS data sets of images, which are decoded once into files."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from dann.checks import check_choice
from dann.data.domain_pair import DomainPair
from dann.data.image_files import check_image_size, load_or_decode
from dann.data.parts import build_pair, check_disjoint

_CHUNK = 256
_LUMA = np.array([0.2989, 0.587, 0.114], np.float32)


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
    """Pairs two TFDS data sets of labelled images; the target's labels are for the oracle.

    `unify` in this file brings the images of both to one size and channel count, and then to
    `height * width * channels` bytes each.

    The target's classes are matched to the source's by name, and it may lack some. A label -1 in
    the target's training split means that the class is unknown; no other split may have it, unless
    all of the target's test split do. A target may also have no classes.

    All images are decoded once, into files beside the data sets, from which later runs read them
    too. A printed line tells the size of each file.

    Args:
        source: Name of the source data set, `name` or `name/config`, of TFDS or of `dann.data`:
            `mnist_m`, `usps`, `chalk_digits`.
        target: Name of the target data set.
        image_size: Side, or height and width, of the images. Defaults to `None`, the larger of
            both data sets'.
        channels: 1 or 3. Defaults to `None`, the larger of both data sets'.
        source_split: Split of the source to train on, in TFDS's notation, such as `train[:80%]`.
        source_test_split: Split of the source to test on.
        target_split: Split of the target to train on, without its labels.
        target_test_split: Split of the target to test on. A test split must not overlap a training
            split.
        cache_dir: Folder for prepared data sets.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory.
        source_name: Name of the source. Defaults to its data set's name.
        target_name: Name of the target. Defaults to its data set's name.

    Raises:
        OSError: If `data_dir` lacks files, `cache_dir` is a file, or there is no room in it.
        TypeError: If `image_size` is not of integers.
        ValueError: If a data set, configuration or split does not exist, splits overlap, the data
            sets do not hold images, the source has no classes or the target has others, a size is
            missing, or a label of the source or of a test split is unknown.
    """
    from dann.data.builders.prepared import prepared

    builders = {name: prepared(name, cache_dir, data_dir) for name in (source, target)}
    keys = {name: _keys_of(name, builder.info) for name, builder in builders.items()}
    names = {"source": source, "target": target, "source test": source, "target test": target}
    splits = {"source": source_split, "target": target_split}
    splits |= {"source test": source_test_split, "target test": target_test_split}
    rows = {part: _rows(builders[names[part]], split) for part, split in splits.items()}
    check_disjoint(rows, _overlap, "splits")
    features: Any = {name: builder.info.features for name, builder in builders.items()}
    shapes = {name: features[name][image].shape for name, (image, _) in keys.items()}
    size, depth = _common_form(shapes, image_size, channels)
    classes: Any = {name: features[name][key].names for name, (_, key) in keys.items() if key}
    if source not in classes:
        raise ValueError(f"{source} must have a class for each image. Received: none")
    parts, shape = {}, (*size, depth)
    for part, name in names.items():
        images, numbers = _read_split(builders[name], splits[part], keys[name], shape)
        labels = np.array(["", *classes.get(name, ())])[numbers + 1]
        parts[part] = {"inputs": images, "labels": labels}
    return build_pair(
        parts,
        source_name=source_name or source,
        target_name=target_name or target,
        class_names=classes[source],
    )


def digits_to_photos(cache_dir: str) -> DomainPair:
    """Pairs handwritten digits on black with digits over photos, 16x16 in colour.

    Everything comes from scikit-learn's package; see `ChalkDigits`.

    Args:
        cache_dir: Folder for prepared data sets.
    """
    return tfds_pair(
        "chalk_digits/black",
        "chalk_digits/photo",
        cache_dir=cache_dir,
        source_name="digits on black",
        target_name="digits over photos",
    )


def _rows(builder, split):
    """The rows of whole splits that make up a split of a data set, as ranges."""
    import tensorflow_datasets as tfds

    splits, path = builder.info.splits, builder.data_path
    return [
        (path / one.splitname, range(splits[one.splitname].num_examples)[one.from_ : one.to])
        for one in tfds.core.ReadInstruction.from_spec(split).to_absolute(splits)
    ]


def _overlap(parts, others):
    return any(
        name == other and max(one.start, its.start) < min(one.stop, its.stop)
        for name, one in parts
        for other, its in others
    )


def _common_form(shapes: dict[str, Any], image_size: Any, channels):
    if image_size is None:
        sides = [shape[:2] for shape in shapes.values()]
        if any(None in one for one in sides):
            raise ValueError(
                f"Images of several sizes need an `image_size`. Received: {shapes} without one"
            )
        image_size = np.max(sides, axis=0)
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


def _keys_of(name: str, info: Any) -> tuple[Any, str | None]:
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
    image, label = [*keys, None, None][:2]
    if image not in images:
        raise ValueError(
            f"{name} must be a data set of images. "
            f"Received: supervised keys {info.supervised_keys} of {dict(features)}"
        )
    is_class = label in list(features) and isinstance(features[label], tfds.features.ClassLabel)
    return image, label if is_class else None


def _read_split(builder, split, keys, shape):
    """The images of a split, a memory map uint8 `(n, *shape)`, and labels int64 `(n,)`.

    The first time they are read into files beside the data set. Labels are -1 without classes.
    """
    stem = re.sub(r"[^\w%:+-]", "_", f"{split}-{'x'.join(map(str, shape))}")
    path = builder.data_path / "decoded" / f"{stem}.npy"
    labels_path = path.with_name(f"{stem}-labels.npy")

    def parts():
        labels, examples = [], _examples(builder, split, keys)
        while part := list(itertools.islice(examples, _CHUNK)):
            labels += [label for _, label in part]
            yield np.stack([unify(image, shape[:2], shape[2]) for image, _ in part])
        np.save(labels_path, np.array(labels, np.int64))  # before the images are renamed

    count = builder.info.splits[split].num_examples
    images = load_or_decode(path, (count, *shape), parts())
    return images, np.load(labels_path)


def _examples(builder, split, keys) -> Iterator[Any]:
    """The images and labels of a split in their order."""
    kind = builder.info.file_format
    if kind is not None and kind in type(kind).with_random_access():  # without TensorFlow
        records = builder.as_data_source(split=split)
    else:
        records = builder.as_dataset(split=split).as_numpy_iterator()
    image, label = keys
    for record in records:
        yield record[image], record[label] if label else -1
