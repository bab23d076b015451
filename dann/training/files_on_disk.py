"""Files that are whole once they have their name, whatever ends the process or the machine."""

import contextlib
import os
import pathlib
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


def flush_to_disk(path: pathlib.Path) -> None:
    """Waits until a file, or what a folder lists, is on the disk and would survive a power cut."""
    if path.is_dir() and os.name == "nt":  # which opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
