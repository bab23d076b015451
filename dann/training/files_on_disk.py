"""Writes files whole or not at all, and lets one process at a time write to a directory."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

import filelock

LOCK = "run.lock"


@contextlib.contextmanager
def atomic_write(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a draft, which replaces the file at the end of the block.

    The folder is created if it does not exist. The draft is flushed to the disk before it is
    renamed. Whatever interrupts the block, the file stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.stem}.part{path.suffix}")
    try:
        yield draft
        if draft.exists():
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_directory(directory: str | os.PathLike) -> Iterator[None]:
    """Lets no other process that asks for it write to a directory during the block.

    It creates the directory if it does not exist. The operating system releases the lock when the
    process dies, whatever the cause.

    Raises:
        BlockingIOError: If another process has locked it.
    """
    path = pathlib.Path(directory) / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise BlockingIOError(
            "Expected a directory to which nothing else writes; wait for the other process, or "
            f"choose another. Received: {directory}"
        ) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()
