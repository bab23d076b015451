"""Data sets that TFDS builders prepare once and keep."""

import difflib
import pathlib

import filelock
import tensorflow_datasets as tfds

from dann.data.mnist import find_mnist


def prepared(name: str, cache_dir: str, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS data set, prepared first unless it is there.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation is begun anew.

    Args:
        name: Name of the data set, `name` or `name/config`.
        cache_dir: Where prepared data sets are kept; `~` is the home directory.
        data_dir: Where files lie that need not be downloaded.

    Raises:
        ValueError: If there is no data set of this name or no such configuration.
    """
    stem, _, config = name.partition("/")
    known = tfds.list_builders(with_community_datasets=False)
    if stem not in known:
        close = difflib.get_close_matches(stem, known)
        raise ValueError(
            f"Expected the name of a TFDS data set{f', such as {close}' if close else ''}. "
            f"Received: {name}"
        )
    builder_class = tfds.builder_cls(_local(stem, data_dir))
    configs = sorted(builder_class.builder_configs)
    if config and config not in configs:
        raise ValueError(f"{stem} has the configurations {configs}. Received: {name}")
    folder = pathlib.Path(cache_dir).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes that prepare one data set would remove each other's files; one that waited must
    # read what the other wrote.
    with filelock.FileLock(folder / f"{builder_class.name}.lock"):
        builder = builder_class(data_dir=folder, config=config or None)
        if not builder.data_path.exists():
            print(f"Preparing {builder.name}, once, in {builder.data_path}", flush=True)
            tfds.disable_progress_bar()
            settings = tfds.download.DownloadConfig(manual_dir=data_dir)
            builder.download_and_prepare(download_config=settings)
    if not (builder.info.metadata or {}).get("genuine", True):
        print(f"{builder.data_path} was not made of the genuine files; delete it to make it anew")
    return builder


def _local(name, data_dir):
    """TFDS's own builder of MNIST only downloads; ours reads the files where they lie."""
    if name != "mnist" or data_dir is None:
        return name
    try:
        find_mnist(data_dir)
    except FileNotFoundError:
        return name
    return "mnist_files"
