"""The cache of data sets that TFDS builders prepare once."""

import contextlib
import difflib
import json
import pathlib
import shutil
import tempfile

import filelock
import tensorflow_datasets as tfds

from dann.data.builders.mnist_files import find_mnist
from dann.data.cache import make_folder
from dann.data.checksums import fault_of, is_sealed, seal
from dann.installed import has_tensorflow


def prepared(
    name: str, cache_dir: str, data_dir: str | None = None, *, by_index: bool = False
) -> tfds.core.DatasetBuilder:
    """Returns the builder of a TFDS data set, and prepares the data set if it is not in the cache.

    TFDS writes to a temporary directory and renames it at the end, so that an interrupted
    preparation starts again. The checksums of the files are written beside them and verified once
    a start. A data set that is broken is prepared again, and a printed line says why; if that
    fails, it stays as it was.

    A builder with `digests_of(folder)` keeps the digests of its raw data, by part, as `made_of` in
    its metadata. The raw data in `data_dir` must then have the same digests.

    Args:
        name: Name of the data set, `name` or `name/config`.
        cache_dir: Folder for prepared data sets; `~` is the home directory.
        data_dir: Folder of raw files that need not be downloaded; `~` is the home directory.
        by_index: Whether a data set that is prepared now gets records that can be read by index, of
            the `array_record` format, rather than TFDS's default. Defaults to `False`.

    Without TensorFlow the records are of the `array_record` format, and most of TFDS's own data
    sets cannot be prepared.

    Raises:
        OSError: If `data_dir` does not exist, or `cache_dir` is a file.
        ValueError: If there is no data set or configuration of this name, or it was prepared from
            other data than that in `data_dir`, is broken and cannot be prepared again, or needs
            TensorFlow where there is none.
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
        builder = _builder(builder_class, folder, config or None, raw, by_index)
    if not (builder.info.metadata or {}).get("genuine", True):
        print(f"{builder.data_path} was not made of the genuine files; delete it to make it again")
    return builder


def needs_tensorflow(builder: tfds.core.DatasetBuilder) -> bool:
    """Returns whether only TensorFlow reads the records of a data set that is prepared."""
    kind = builder.info.file_format
    return kind is None or kind not in type(kind).with_random_access()


def check_tensorflow(what: str, cause: Exception | None = None) -> None:
    """Raises a `ValueError`, with its cause, if TensorFlow cannot be imported.

    Args:
        what: What needs TensorFlow.
        cause: The error that told of it. Defaults to `None`.
    """
    if not has_tensorflow():
        raise ValueError(
            f"{what} needs TensorFlow: pip install tensorflow. Received: none that can be imported"
        ) from cause


def _builder(builder_class, folder, config, raw, by_index) -> tfds.core.DatasetBuilder:
    """The builder of a data set that is prepared and whole; prepares it if it is not."""
    builder, path, fault = _found(builder_class, folder, config)
    if builder is None or fault is not None:
        return _prepare_again(builder_class, folder, config, raw, by_index, path, fault)
    if not path.exists():
        return _prepare(builder_class, folder, config, raw, by_index)
    if raw is not None:
        _check_made_of(builder, raw)
    return builder


def _found(builder_class, folder, config):
    """The builder (`None` if TFDS cannot read the data set), its folder, and what is wrong."""
    try:
        builder = builder_class(data_dir=folder, config=config)
        path = pathlib.Path(builder.data_path)
        return builder, path, _fault_of(builder, path, folder) if path.exists() else None
    except Exception as error:  # TFDS raises nearly anything for broken files
        path = _place(builder_class, folder, config)
        if not path.exists():
            raise
        return None, path, f"TFDS cannot read it, {' '.join(str(error).split())[:200]}"


def _prepare_again(builder_class, folder, config, raw, by_index, path, fault):
    """Prepares a broken data set; if that fails, the broken one stays."""
    print(f"{path} is broken and is made again: {fault}", flush=True)
    aside = path.with_name(f"{path.name}.broken")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    try:
        builder = _prepare(builder_class, folder, config, raw, by_index)
    except Exception as error:
        raise ValueError(
            f"{path} is broken, {fault}, and cannot be made again; give its raw files as "
            f"`data_dir`, or name another `cache_dir`. Received: {error}"
        ) from error
    finally:
        if not path.exists():
            aside.rename(path)
    shutil.rmtree(aside)
    return builder


def _prepare(builder_class, folder, config, raw, by_index):
    kind = {} if has_tensorflow() and not by_index else {"file_format": "array_record"}
    builder = builder_class(data_dir=folder, config=config, **kind)
    print(f"Preparing {builder.name}, once, in {builder.data_path}", flush=True)
    tfds.disable_progress_bar()
    settings = tfds.download.DownloadConfig(manual_dir=raw)
    try:
        builder.download_and_prepare(download_config=settings)
    except ImportError as error:
        check_tensorflow(f"To prepare {builder.name}", error)
        raise
    if builder.data_path.exists():  # a mocked data set has no files
        seal(pathlib.Path(builder.data_path))
    return builder


def _fault_of(builder, path, folder):
    """What is wrong with a data set that was prepared before, or `None`."""
    if folder not in path.parents:
        return None  # a mocked data set is TFDS's own
    if not (path / "dataset_info.json").is_file():
        return "it has no dataset_info.json"
    info = json.loads((path / "dataset_info.json").read_text())
    found = info.get("name"), info.get("version"), info.get("configName")
    config = builder.builder_config
    wanted = builder.name, str(builder.version), config.name if config else None
    if found != wanted:
        return f"its dataset_info.json is that of {'/'.join(filter(None, map(str, found)))}"
    if is_sealed(path):
        return fault_of(path)
    with contextlib.suppress(OSError):  # an older version prepared it, perhaps for reading alone
        seal(path)
    return None


def _place(builder_class, folder, config):
    """Where a data set lies that its builder cannot read."""
    with tempfile.TemporaryDirectory() as elsewhere:
        path = builder_class(data_dir=elsewhere, config=config).data_path
        return folder / pathlib.Path(path).relative_to(elsewhere)


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
