"""The cache of data sets that TFDS builders prepare once."""

import contextlib
import io
import pathlib
import sys
from typing import Any

import filelock
import tensorflow_datasets as tfds

from dann.checks import has_tensorflow
from dann.data.builders.digit_images import DigitImages


def prepared(name: str, cache_dir: str, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS data set, and prepares the data set if it is not in the cache.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation starts again. A data set that is there is only read, so that its folder may be
    another user's.

    Args:
        name: Name of the data set, `name` or `name/config`.
        cache_dir: Folder for prepared data sets; `~` is the home directory.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory. With
            it, `mnist` is `MnistFiles`, because TFDS's own always downloads.

    Without TensorFlow the records are of the `array_record` format, and most of TFDS's own data
    sets cannot be prepared.

    Raises:
        OSError: If `data_dir` lacks the data set's files, or `cache_dir` is a file.
        ValueError: If there is no data set or configuration of this name.
    """
    raw = None if data_dir is None else pathlib.Path(data_dir).expanduser()
    stem, _, config = name.partition("/")
    kind: Any = tfds.builder_cls("mnist_files" if stem == "mnist" and raw else stem)
    folder = pathlib.Path(cache_dir).expanduser()
    form = {"data_dir": folder, "config": config or None}
    builder = kind(**form)
    if builder.data_path.exists():
        return builder
    own = isinstance(builder, DigitImages)
    missing = [part for part in (builder.RAW if own else ()) if raw and not (raw / part).is_dir()]
    if missing:  # trying to download them may take minutes
        raise FileNotFoundError(
            f"`data_dir` (paths.data_dir) must hold {'/ and '.join(missing)}/ for {stem}; leave it "
            f"out to download the files. Received: {raw}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes that prepare one data set would remove each other's files.
    with filelock.FileLock(folder / f"{builder.name}.lock"):
        if not builder.data_path.exists():
            print(f"Preparing {builder.name}, once, in {builder.data_path}", flush=True)
            tfds.disable_progress_bar()
            settings = tfds.download.DownloadConfig(manual_dir=raw)
            if not has_tensorflow():
                form["file_format"] = "array_record"
            # Of our builders, which download little or nothing, TFDS says "downloading" as well.
            with contextlib.redirect_stdout(io.StringIO() if own else sys.stdout):
                kind(**form).download_and_prepare(download_config=settings)
    return kind(data_dir=folder, config=config or None)
