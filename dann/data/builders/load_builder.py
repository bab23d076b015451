"""Cache of datasets that TFDS builders prepare once."""

import contextlib
import io
import pathlib
import sys
from typing import Any

import filelock
import tensorflow_datasets as tfds

from dann.checks import has_tensorflow
from dann.data.builders.image_builder import ImageBuilder


def load_builder(
    name: str, cache_dir: str, data_dir: str | None = None
) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS dataset; prepares the dataset if the cache lacks it.

    TFDS writes to a temporary directory and renames it at the end, so an interrupted preparation
    starts again. An existing dataset is only read, so its folder may belong to another user.

    Without TensorFlow, the records have the `array_record` format, and most of TFDS's own datasets
    cannot be prepared.

    Args:
        name: Name of the dataset, `name` or `name/config`.
        cache_dir: Folder of prepared datasets; `~` is the home directory.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory. If it
            is set, `mnist` is `MnistFiles`, because TFDS's own builder always downloads.

    Raises:
        OSError: If `data_dir` lacks the dataset's files, or `cache_dir` is a file.
        ValueError: If there is no dataset or configuration of this name.
    """
    raw = None if data_dir is None else pathlib.Path(data_dir).expanduser()
    stem, _, config = name.partition("/")
    builder_class: Any = tfds.builder_cls("mnist_files" if stem == "mnist" and raw else stem)
    folder = pathlib.Path(cache_dir).expanduser()
    arguments = {"data_dir": folder, "config": config or None}
    builder = builder_class(**arguments)
    if builder.data_path.exists():
        return builder
    is_package_builder = isinstance(builder, ImageBuilder)
    if is_package_builder and raw:  # an attempt to download missing files could take minutes
        missing_folders = [name for name in builder.RAW if not (raw / name).is_dir()]
        if missing_folders:
            raise FileNotFoundError(
                "Expected `data_dir` (paths.data_dir) to contain "
                f"{'/ and '.join(missing_folders)}/ for {stem}. Received: {raw}. Leave it out to "
                "download the files"
            )
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes that prepare one dataset would remove each other's files.
    with filelock.FileLock(folder / f"{builder.name}.lock"):
        if not builder.data_path.exists():
            print(f"Preparing the dataset {name} once in {folder}", flush=True)
            tfds.disable_progress_bar()
            settings = tfds.download.DownloadConfig(manual_dir=raw)
            if not has_tensorflow():
                arguments["file_format"] = "array_record"
            # TFDS prints "Downloading" also for our builders, which download little or nothing.
            with contextlib.redirect_stdout(io.StringIO() if is_package_builder else sys.stdout):
                builder_class(**arguments).download_and_prepare(download_config=settings)
    return builder_class(data_dir=folder, config=config or None)
