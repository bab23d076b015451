"""The cache of data sets that TFDS builders prepare once."""

import difflib
import pathlib

import filelock
import tensorflow_datasets as tfds

from dann.data.builders.mnist_files import find_mnist
from dann.data.cache import make_folder


def prepared(name: str, cache_dir: str, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS data set, and prepares the data set if it is not in the cache.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation starts again.

    A builder with `digests_of(folder)` keeps the digests of its raw data, by part, as `made_of` in
    its metadata. The raw data in `data_dir` must then have the same digests.

    Args:
        name: Name of the data set, `name` or `name/config`.
        cache_dir: Folder for prepared data sets; `~` is the home directory.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory.

    Raises:
        OSError: If `data_dir` does not exist, or `cache_dir` is a file.
        ValueError: If there is no data set or configuration of this name, or it was prepared from
            other data than that in `data_dir`.
    """
    raw = None if data_dir is None else pathlib.Path(data_dir).expanduser()
    if raw is not None and not raw.is_dir():
        raise FileNotFoundError(
            "Argument `data_dir` must be a folder that exists; leave it out to download the raw "
            f"files. Received: {data_dir}"
        )
    stem, _, config = name.partition("/")
    known = tfds.list_builders(with_community_datasets=False)
    if stem not in known:
        close = difflib.get_close_matches(stem, known)
        raise ValueError(
            f"Expected the name of a TFDS data set{f', such as {close}' if close else ''}. "
            f"Received: {name}"
        )
    builder_class = tfds.builder_cls(_local(stem, raw))
    configs = sorted(builder_class.builder_configs)
    if config and config not in configs:
        raise ValueError(f"{stem} has the configurations {configs}. Received: {name}")
    folder = make_folder(cache_dir)
    # Two processes that prepare one data set would remove each other's files. The second waits, and
    # must then read what the first has written.
    with filelock.FileLock(folder / f"{builder_class.name}.lock"):
        builder = builder_class(data_dir=folder, config=config or None)
        if not builder.data_path.exists():
            print(f"Preparing {builder.name}, once, in {builder.data_path}", flush=True)
            tfds.disable_progress_bar()
            settings = tfds.download.DownloadConfig(manual_dir=raw)
            builder.download_and_prepare(download_config=settings)
        elif raw is not None:
            _check_made_of(builder, raw)
    if not (builder.info.metadata or {}).get("genuine", True):
        print(f"{builder.data_path} was not made of the genuine files; delete it to make it again")
    return builder


def _check_made_of(builder, folder):
    """Raises a `ValueError` if the data in `folder` differ from those the data set was made of."""
    # A data set that an older version prepared has no such note.
    made_of = (builder.info.metadata or {}).get("made_of")
    if not made_of or not hasattr(builder, "digests_of"):
        return
    found = builder.digests_of(folder)
    differ = [part for part in found if found[part] != made_of.get(part)]
    if differ:
        raise ValueError(
            f"{builder.data_path} was made of other data than those in `data_dir`; delete that "
            "folder to make it again, or name another `cache_dir`. "
            f"Received: {folder} with other data of {' and '.join(differ)}"
        )


def _local(name, data_dir):
    """Takes our builder of MNIST if its files are in the folder; TFDS's own always downloads."""
    if name != "mnist" or data_dir is None:
        return name
    try:
        find_mnist(data_dir)
    except FileNotFoundError:
        return name
    return "mnist_files"
