"""Readers of TFDS image datasets, which are decoded once into files."""

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


def tfds_pair(
    source: str,
    target: str,
    *,
    image_size: int | Sequence[int] | None = None,
    source_split: str = "train",
    source_test_split: str = "test",
    target_split: str = "train",
    target_test_split: str = "test",
    cache_dir: str = "~/.cache/dann",
    data_dir: str | None = None,
    source_name: str | None = None,
    target_name: str | None = None,
) -> DomainPair:
    """Pairs two TFDS datasets of images.

    The images of both datasets are converted to one size, and to color if one dataset is in
    color, `height * width * channels` bytes each. Resizing is bilinear, antialiased when it
    shrinks, and does not preserve the aspect ratio. Only the test and oracles use the labels of the
    target.

    The target's classes are matched to the source's by name; the target may lack some classes, or
    have no labels. A label -1 in the target's training split means that the class is unknown. In
    the target's test split either all labels are -1 or none.

    All images are decoded once, into files in the folders of the datasets, which later runs read.
    The size of each file is printed.

    Args:
        source: Name of the source dataset, `name` or `name/config`, of TFDS or of `dann.data`:
            `mnist_m`, `usps`, `chalk_digits`.
        target: Name of the target dataset.
        image_size: Side, or height and width, of the images. Defaults to `None`: the larger of both
            datasets' sizes.
        source_split: Split of the source to train on, in TFDS's notation, such as `train[:80%]`.
        source_test_split: Split of the source to test on.
        target_split: Split of the target to train on, without its labels.
        target_test_split: Split of the target to test on. A test split must not overlap a training
            split.
        cache_dir: Folder of prepared datasets.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory.
        source_name: Name of the source. Defaults to the name of its dataset.
        target_name: Name of the target. Defaults to the name of its dataset.

    Raises:
        OSError: If `data_dir` lacks files, `cache_dir` is a file, or the disk is full.
        TypeError: If `image_size` does not consist of integers.
        ValueError: If a dataset, configuration or split does not exist; splits overlap; a dataset
            does not contain images; the source has no classes, or the target has other classes; a
            size is missing; or a label of the source or of a test split is unknown.
    """
    from dann.data.builders.load_builder import load_builder

    # Both domains may be the same dataset, so dicts by name prepare it once.
    builders = {name: load_builder(name, cache_dir, data_dir) for name in (source, target)}
    keys = {name: _find_keys(name, builder.info) for name, builder in builders.items()}
    names = {"source": source, "target": target, "source test": source, "target test": target}
    splits = {"source": source_split, "target": target_split}
    splits |= {"source test": source_test_split, "target test": target_test_split}
    rows = {part: _read_ranges(builders[names[part]], split) for part, split in splits.items()}
    check_disjoint(rows, _ranges_overlap, "splits")
    features: Any = {name: builder.info.features for name, builder in builders.items()}
    shapes = {name: features[name][image].shape for name, (image, _) in keys.items()}
    shape = _choose_common_shape(shapes, image_size)
    classes: Any = {name: features[name][key].names for name, (_, key) in keys.items() if key}
    if source not in classes:
        raise ValueError(f"Expected {source} to have a class label per image. Received: none")
    parts = {}
    for part, name in names.items():
        images, numbers = _read_split(builders[name], splits[part], keys[name], shape)
        labels = np.array(["", *classes.get(name, ())])[numbers + 1]  # -1 becomes ""
        parts[part] = {"inputs": images, "labels": labels}
    return build_pair(
        parts,
        source_name=source_name or source,
        target_name=target_name or target,
        class_names=classes[source],
    )


def digits_to_photos(cache_dir: str) -> DomainPair:
    """Pairs handwritten digits on black with digits over photos, 16x16 in color.

    The digits and the photos are part of scikit-learn, so nothing is downloaded; see
    `dann.data.builders.chalk_digits.ChalkDigits`. The first call draws the images and stores them
    in `cache_dir`.

    Args:
        cache_dir: Folder of prepared datasets.

    Returns:
        The two domains, with 10 classes. The labels of the target serve only the test and oracles.
    """
    return tfds_pair(
        "chalk_digits/black",
        "chalk_digits/photo",
        cache_dir=cache_dir,
        source_name="digits on black",
        target_name="digits over photos",
    )


def emoji(
    source: str,
    target: str,
    *,
    image_size: int = 48,
    labels: str = "groups",
    cache_dir: str = "~/.cache/dann",
    data_dir: str | None = None,
) -> DomainPair:
    """Pairs two drawing styles of emoji.

    Training and test sets share no concept.

    The styles are `noto`, `twemoji`, `openmoji`, `emojione`, `emojione_v1`, `fluent_flat` and
    `fluent_high_contrast`; see `dann.data.builders.emoji.Emoji` for the origin of the drawings and
    the split of the concepts.

    Args:
        source: Style of the source.
        target: Style of the target.
        image_size: 48 (default) or 128 pixels.
        labels: `"groups"` (default), 7 classes such as food and drink, or `"subgroups"`, 23 classes
            such as fruit.
        cache_dir: Folder of prepared datasets.
        data_dir: Folder that contains `emoji/` with the tarballs of the drawings, of the packages
            and versions in `dann.data.builders.emoji.STYLES`. Defaults to `None`: the current
            folder.

    Raises:
        OSError: If a tarball is missing; the message has the command that fetches it.
        ImportError: If resvg-py is not installed.
        ValueError: If a style, size or kind of labels does not exist.
    """
    return tfds_pair(
        f"emoji/{source}_{image_size}_{labels}",
        f"emoji/{target}_{image_size}_{labels}",
        source_split="source_train",
        source_test_split="source_test",
        target_split="target_train",
        target_test_split="target_test",
        cache_dir=cache_dir,
        data_dir=data_dir or ".",
        source_name=source,
        target_name=target,
    )


def _read_ranges(builder, split):
    """Returns the ranges of rows that a split consists of, with the files that contain them."""
    import tensorflow_datasets as tfds

    splits, path = builder.info.splits, builder.data_path
    return [
        (path / rows.splitname, range(splits[rows.splitname].num_examples)[rows.from_ : rows.to])
        for rows in tfds.core.ReadInstruction.from_spec(split).to_absolute(splits)
    ]


def _ranges_overlap(ranges, other_ranges):
    return any(
        file == other_file and max(rows.start, other_rows.start) < min(rows.stop, other_rows.stop)
        for file, rows in ranges
        for other_file, other_rows in other_ranges
    )


def _choose_common_shape(shapes: dict[str, Any], image_size: Any):
    if image_size is None:
        sizes = [shape[:2] for shape in shapes.values()]
        if any(None in size for size in sizes):
            raise ValueError(f"Images of several sizes need an `image_size`. Received: {shapes}")
        image_size = np.max(sizes, axis=0)
    channels = max(shape[-1] for shape in shapes.values())
    return *check_image_size(image_size), check_choice("channels", channels, (1, 3))


def unify(image: np.ndarray, size: tuple[int, int], channels: int) -> np.ndarray:
    """Converts an image to a size and a channel count.

    Resizing is bilinear, antialiased when it shrinks, and does not preserve the aspect ratio. Gray
    is repeated three times. Values are rounded to bytes. An image that already has the size and the
    channels does not change.

    Args:
        image: uint8 `(height, width, channels)` with 1 or 3 channels.
        size: New height and width.
        channels: New number of channels, 1 or 3, at least as many as the image has.
    """
    if image.shape[:2] != tuple(size):
        height, width = size
        # As floats, because Pillow would round bytes after each of the two axes.
        planes = [
            np.asarray(Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR))
            for plane in np.moveaxis(image.astype(np.float32), -1, 0)
        ]
        image = np.clip(np.rint(np.stack(planes, axis=-1)), 0, 255).astype(np.uint8)
    return np.repeat(image, 3, axis=-1) if image.shape[-1] < channels else image


def _find_keys(name: str, info: Any) -> tuple[str, str | None]:
    """Returns the keys of the image and of the class label, which is `None` without classes."""
    import tensorflow_datasets as tfds

    images = [key for key, kind in info.features.items() if isinstance(kind, tfds.features.Image)]
    default: Any = images[0] if len(images) == 1 else None
    image, label = (info.supervised_keys or (default, None))[:2]
    if image not in images:
        raise ValueError(
            f"Expected {name} to be a dataset of images. "
            f"Received: supervised keys {info.supervised_keys} of {dict(info.features)}"
        )
    is_class = label and isinstance(info.features[label], tfds.features.ClassLabel)
    return image, label if is_class else None


def _read_split(builder, split, keys, shape):
    """Returns a memory map of images uint8 `(n, *shape)` and labels int64 `(n,)`, -1 if unknown.

    The first call writes both to files in the folder of the dataset.
    """
    stem = re.sub(r"[^\w%:+-]", "_", f"{split}-{'x'.join(map(str, shape))}")
    path = builder.data_path / "decoded" / f"{stem}.npy"
    labels_path = path.with_name(f"{stem}-labels.npy")

    def read_parts():
        labels, examples = [], _read_examples(builder, split, keys)
        while chunk := list(itertools.islice(examples, _CHUNK)):
            labels += [label for _, label in chunk]
            yield np.stack([unify(image, shape[:2], shape[2]) for image, _ in chunk])
        # Before the file of the images gets its final name, which implies that labels exist.
        np.save(labels_path, np.array(labels, np.int64))

    count = builder.info.splits[split].num_examples
    return load_or_decode(path, (count, *shape), read_parts()), np.load(labels_path)


def _read_examples(builder, split, keys) -> Iterator[Any]:
    """Yields the images and labels of a split in order."""
    file_format = builder.info.file_format
    # Formats with random access are read without TensorFlow.
    if file_format is not None and file_format in type(file_format).with_random_access():
        records = builder.as_data_source(split=split)
    else:
        records = builder.as_dataset(split=split).as_numpy_iterator()
    image, label = keys
    for record in records:
        yield record[image], record[label] if label else -1
