"""Data sets that TFDS builders prepare once and keep."""

import pathlib
from typing import Any

import numpy as np
import tensorflow_datasets as tfds


def prepare(
    builder_class: Any,
    cache_dir: str,
    manual_dir: str | None = None,
    config: str | None = None,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Prepares the data set of a TFDS builder, unless it is there, and reads it whole.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation is begun anew.

    Args:
        builder_class: The builder.
        cache_dir: Where prepared data sets are kept; `~` is the home directory.
        manual_dir: Where files lie that need not be downloaded.
        config: Name of the builder's configuration, if it has any.

    Returns:
        Images, uint8 `(n, height, width, channels)`, and labels, int64 `(n,)`, by split.
    """
    builder = builder_class(data_dir=pathlib.Path(cache_dir).expanduser(), config=config)
    if not builder.data_path.exists():
        print(f"Preparing {builder.name}, once, in {builder.data_path}", flush=True)
        tfds.disable_progress_bar()
        settings = tfds.download.DownloadConfig(manual_dir=manual_dir)
        builder.download_and_prepare(download_config=settings)
    splits = {}
    for split in builder.info.splits:
        examples = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1))
        splits[split] = examples["image"], examples["label"]
    return splits
