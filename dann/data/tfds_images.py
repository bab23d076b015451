"""The images and labels of a split of a TFDS data set: in memory, in a file, or read on demand."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dann.data.cache import check_room, in_gigabytes, load_or_compute, make_folder
from dann.data.image_cache import ImageCache

_CHUNK = 256
_POOL = ThreadPoolExecutor(thread_name_prefix="decode")


def read_split(
    builder: Any,
    split: str,
    shape: Sequence[int],
    form: Callable[[np.ndarray], np.ndarray],
    count: int,
    cache: str,
) -> tuple[Any, np.ndarray]:
    """Returns the images of a split as an array-like uint8 `(n, *shape)`, and labels int64 `(n,)`.

    Args:
        builder: Builder of a data set that is prepared, with an image and a class as its keys.
        split: The split, in TFDS's notation.
        shape: Height, width and channels of the images.
        form: Brings an image of any size to that shape.
        count: Number of examples in the split, 0 if it is unknown.
        cache: `"memory"`: an array, read from a file that is written at the first time. `"disk"`: a
            memory map of such a file. `"none"`: each row is decoded when it is asked for.

    Raises:
        OSError: If there is no room for the file.
        ValueError: If records cannot be read or, for `"none"`, not by index.
    """
    stem = re.sub(r"[^\w%:+-]", "_", f"{split}-{'x'.join(map(str, shape))}")
    folder = builder.data_path / "decoded"
    if cache == "memory":
        return _in_memory(builder, split, shape, form, count, folder / f"{stem}.npz")
    if cache == "none":
        images = RecordImages(builder, split, shape, form)
        return images, _labels(builder, split, len(images))
    labels = _labels(builder, split, count)
    store = ImageCache(make_folder(folder) / f"{stem}.npy", (len(labels), *shape))
    store.filled(lambda: _parts(builder, split, form))
    return store.images(), labels


class RecordImages:
    """Images of a TFDS split as an array-like uint8 `(n, *shape)`, decoded in threads on demand.

    Args:
        builder: See `read_split`.
        split: The same.
        shape: The same.
        form: The same.

    Raises:
        ValueError: If the records cannot be read by index.
    """

    def __init__(self, builder, split, shape, form):
        import tensorflow_datasets as tfds

        from dann.data.builders.prepared import needs_tensorflow

        if needs_tensorflow(builder):
            kind = builder.info.file_format
            raise ValueError(
                "`cache=none` needs records that can be read by index; write `cache=disk` or "
                "`cache=memory`, or delete the data set's folder to have it prepared with such "
                f"records. Received: {builder.data_path} with {kind and kind.value}"
            )
        self.key = builder.info.supervised_keys[0]
        self.form, self.feature = form, builder.info.features[self.key]
        skipped = {self.key: tfds.decode.SkipDecoding()}
        self.records = builder.as_data_source(split=split, decoders=skipped)
        self.place = builder.data_path
        self.shape = (len(self.records), *shape)
        self.dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> np.ndarray:
        rows = np.arange(len(self))[chosen]
        images = np.empty((rows.size, *self.shape[1:]), self.dtype)
        try:
            records = self.records.__getitems__(rows.ravel().tolist())
            decoded = _POOL.map(self._decoded, records)
            for place, image in enumerate(decoded):
                images[place] = image
        except Exception as error:  # TFDS raises nearly anything for broken files
            raise _broken(self.place) from error
        return images.reshape(*rows.shape, *self.shape[1:])

    def _decoded(self, record):
        return self.form(self.feature.decode_example_np(record[self.key]))


def _in_memory(builder, split, shape, form, count, path):
    """Arrays of a split, from a file of both or decoded into it."""

    def decode():
        size = count * int(np.prod(shape))
        if size:
            print(f"Decoding {count} images, once, into {path}: {in_gigabytes(size)}", flush=True)
        check_room(path.parent, size)
        labels = []

        def images():
            for image, label in _examples(builder, split):
                labels.append(label)
                yield form(image)

        row = np.dtype((np.uint8, tuple(shape)))  # so that nothing is held twice
        return {"images": np.fromiter(images(), row, count or -1), "labels": np.stack(labels)}

    def fits(arrays):
        images, labels = (arrays.get(key, np.empty(0)) for key in ("images", "labels"))
        return (
            images.shape == (*labels.shape, *shape)
            and images.dtype == np.uint8
            and _are_labels(labels, count)
        )

    arrays = load_or_compute(path, decode, fits)
    return arrays["images"], arrays["labels"].astype(np.int64)


def _labels(builder, split, count):
    """The labels of a split, which are read without its images and kept in a file."""
    name = re.sub(r"[^\w%:+-]", "_", split)

    def read():
        return {"labels": np.array(list(_examples(builder, split, with_images=False)))}

    def fits(arrays):
        return _are_labels(arrays.get("labels", np.empty(0)), count)

    path = builder.data_path / "decoded" / f"{name}-labels.npz"
    return load_or_compute(path, read, fits)["labels"].astype(np.int64)


def _are_labels(labels, count):
    return labels.dtype.kind == "i" and labels.ndim == 1 and len(labels) == (count or len(labels))


def _parts(builder, split, form):
    """The images of a split in parts, none of them unreadable, as `ImageCache.write` takes them."""
    images = (form(image) for image, _ in _examples(builder, split))
    while part := list(itertools.islice(images, _CHUNK)):
        yield np.stack(part), []


def _examples(builder, split, *, with_images=True) -> Iterator[Any]:
    """The images and labels of a split in their order, or its labels alone."""
    from dann.data.builders.prepared import check_tensorflow, needs_tensorflow

    if needs_tensorflow(builder):
        check_tensorflow(f"The records in {builder.data_path}")
    try:
        yield from _records(builder, split, needs_tensorflow(builder), with_images)
    except Exception as error:  # TFDS raises nearly anything for broken files
        raise _broken(builder.data_path) from error


def _records(builder, split, with_tensorflow, with_images):
    import tensorflow_datasets as tfds

    image, label = builder.info.supervised_keys
    decoders = {} if with_images else {"decoders": {image: tfds.decode.SkipDecoding()}}
    if with_tensorflow:
        records = tfds.as_numpy(builder.as_dataset(split=split, **decoders))
    else:
        records = builder.as_data_source(split=split, **decoders)
    for record in records:
        yield (record[image], record[label]) if with_images else record[label]


def _broken(place):
    return ValueError(
        "The records of a data set must be readable; delete their folder to make them again. "
        f"Received: {place}, which is broken"
    )
