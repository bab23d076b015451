"""Files and folders that are whole once they have their name, whatever ends the process."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a draft beside a file, whose folder it makes; at the end the draft becomes the file.

    It is on the disk by then, so that after a power cut the name stands for a whole file.
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
    """Puts a copy of a folder in the place of another, which may be missing.

    The copy is complete before it takes its name; no reader finds files of both.

    Args:
        source: The folder to copy.
        target: The folder that the copy replaces.
        drafts: Folder on the same disk for the copy on its way.

    Raises:
        OSError: If the folder cannot be copied; the target stays.
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
