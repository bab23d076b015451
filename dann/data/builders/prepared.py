"""Data sets that TFDS builders prepare once and keep."""

import difflib
import pathlib

import filelock
import tensorflow_datasets as tfds

from dann.data.builders.idx_files import find_mnist
from dann.data.cache import made_folder


def prepared(name: str, cache_dir: str, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS data set, prepared first unless it is there.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation is begun anew.

    A builder with `digests_of(folder)` keeps the digests of the raw files that it was made of, by
    part, as `made_of` in its metadata. Those of another `data_dir` must then be alike.

    Args:
        name: Name of the data set, `name` or `name/config`.
        cache_dir: Where prepared data sets are kept; `~` is the home directory.
        data_dir: Where files lie that need not be downloaded; `~` is the home directory.

    Raises:
        OSError: If `data_dir` is not there, or `cache_dir` is no folder.
        ValueError: If there is no data set of this name or no such configuration, or it was made
            of other files than those in `data_dir`.
    """
    raw = None if data_dir is None else pathlib.Path(data_dir).expanduser()
    if raw is not None and not raw.is_dir():
        raise FileNotFoundError(
            "Argument `data_dir` must be a folder that is there; without one, raw files are "
            f"downloaded. Received: {data_dir}"
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
    folder = made_folder(cache_dir)
    # Two processes that prepare one data set would remove each other's files; one that waited must
    # read what the other wrote.
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
        print(f"{builder.data_path} was not made of the genuine files; delete it to make it anew")
    return builder


def _check_made_of(builder, folder):
    """Refuses a prepared data set if other files than those it was made of lie in `folder`."""
    # One that an older version prepared does not know what it was made of.
    made_of = (builder.info.metadata or {}).get("made_of")
    if not made_of or not hasattr(builder, "digests_of"):
        return
    found = builder.digests_of(folder)
    differ = [part for part in found if found[part] != made_of.get(part)]
    if differ:
        raise ValueError(
            f"What {builder.data_path} was made of must be what lies in `data_dir`; delete that "
            "folder to make it anew, or name another `cache_dir`. "
            f"Received: {folder} with other data of {' and '.join(differ)}"
        )


def _local(name, data_dir):
    """TFDS's own builder of MNIST only downloads; ours reads the files where they lie."""
    if name != "mnist" or data_dir is None:
        return name
    try:
        find_mnist(data_dir)
    except FileNotFoundError:
        return name
    return "mnist_files"
