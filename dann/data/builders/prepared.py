"""The cache of data sets that TFDS builders prepare once."""

import contextlib
import io
import pathlib
import sys

import filelock
import tensorflow_datasets as tfds

from dann.data.builders.digit_images import DigitImages
from dann.data.builders.mnist_files import find_mnist


def has_tensorflow() -> bool:
    """Returns whether TensorFlow can be imported; this imports it, because it may be broken."""
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        return False
    return True


def prepared(name: str, cache_dir: str, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS data set, and prepares the data set if it is not in the cache.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation starts again. A data set that is there is only read, so that its folder may be
    another user's.

    Args:
        name: Name of the data set, `name` or `name/config`.
        cache_dir: Folder for prepared data sets; `~` is the home directory.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory.

    Without TensorFlow the records are of the `array_record` format, and most of TFDS's own data
    sets cannot be prepared.

    Raises:
        OSError: If `data_dir` does not exist or lacks the data set's files, or `cache_dir` is a
            file.
        ValueError: If there is no data set or configuration of this name.
    """
    raw = None if data_dir is None else pathlib.Path(data_dir).expanduser()
    if raw is not None and not raw.is_dir():
        raise FileNotFoundError(
            "Argument `data_dir` must be a folder that exists; leave it out to download the raw "
            f"files. Received: {data_dir}"
        )
    stem, _, config = name.partition("/")
    folder = pathlib.Path(cache_dir).expanduser()
    kind = {} if has_tensorflow() else {"file_format": "array_record"}

    def found(**form):
        return tfds.builder_cls(_local(stem, raw))(data_dir=folder, config=config or None, **form)

    builder = found()
    if builder.data_path.exists():
        return builder
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes that prepare one data set would remove each other's files.
    with filelock.FileLock(folder / f"{builder.name}.lock"):
        builder = found(**kind)
        if builder.data_path.exists():
            return found()
        if raw is not None:
            _check_raw(stem, raw)
        print(f"Preparing {builder.name}, once, in {builder.data_path}", flush=True)
        tfds.disable_progress_bar()
        settings = tfds.download.DownloadConfig(manual_dir=raw)
        # Of our own builders, which download little or nothing, TFDS says "downloading" as well.
        own = isinstance(builder, DigitImages)
        with contextlib.redirect_stdout(io.StringIO() if own else sys.stdout):
            builder.download_and_prepare(download_config=settings)
    return builder


def _check_raw(name, raw):
    """Says at once what a folder of raw files lacks; trying to download it may take minutes."""
    wanted = {"mnist": ("mnist",), "mnist_m": ("mnist", "bsds500"), "usps": ("usps",)}
    missing = [part for part in wanted.get(name, ()) if not (raw / part).is_dir()]
    if _local("mnist", raw) == "mnist_files" and "mnist" in missing:
        missing.remove("mnist")  # its files lie in the folder itself
    if missing:
        raise FileNotFoundError(
            f"`data_dir` (paths.data_dir) must hold {'/ and '.join(missing)}/ for {name}; leave it "
            f"out to download the files. Received: {raw}"
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
