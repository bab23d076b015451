"""Writes files and folders so that an interruption never leaves a partial one."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a draft, which replaces the file at the end of the block.

    The folder is created if it does not exist. The draft is flushed to the disk before it is
    renamed, so that even after a power cut the file is complete.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.stem}.part{path.suffix}")
    draft.unlink(missing_ok=True)  # it could be a link to somewhere else
    try:
        yield draft
        if draft.exists():
            flush_to_disk(draft)
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def replace_folder(source: pathlib.Path, target: pathlib.Path, drafts: pathlib.Path) -> None:
    """Replaces a folder, which may be missing, by a copy of another.

    The copy is complete before it is renamed, so no reader finds a mixture of both.

    Args:
        source: The folder to copy.
        target: The folder that the copy replaces.
        drafts: Folder on the same disk for the unfinished copy.

    Raises:
        OSError: If the folder cannot be copied; the target is left as it was.
    """
    draft, old = drafts / f"{target.name}.part", drafts / f"{target.name}.old"
    _remove(draft)
    _remove(old)
    try:
        shutil.copytree(source, draft)
        if target.exists() or target.is_symlink():
            target.rename(old)
        draft.rename(target)
    except shutil.Error as error:  # which lists each file with its reason
        raise OSError(error.args[0][0][-1]) from error
    finally:
        _remove(draft)
    _remove(old)


def flush_to_disk(path: pathlib.Path) -> None:
    """Waits until a file, or what a folder lists, is on the disk and would survive a power cut."""
    if path.is_dir() and os.name == "nt":  # which opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(folder):
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
