"""A lock that lets only one process at a time write to a directory."""

import contextlib
import datetime
import functools
import os
import pathlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

LOCK = "run.lock"


class DirectoryInUseError(OSError):
    """Another process writes to the directory."""


@contextlib.contextmanager
def claim(directory: str | os.PathLike) -> Iterator[None]:
    """Claims a directory until the end of the block; the same thread may claim it again.

    It creates the directory if it does not exist, and in it the file `run.lock`, which it deletes
    at the end. The operating system releases the lock when the process dies, whatever the cause.

    Raises:
        DirectoryInUseError: If another process or thread has claimed it; the message names the
            process.
        OSError: If the directory cannot be created or written to.
    """
    import filelock

    path = pathlib.Path(directory).absolute() / LOCK
    lock = filelock.FileLock(path, timeout=0, is_singleton=True)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DirectoryInUseError(
            "Expected a directory to which nothing else writes; wait until the other process has "
            f"ended, or choose another. Received: {directory}, which {_owner(path)} is writing to"
        ) from None
    try:
        if lock.lock_counter == 1:
            now = datetime.datetime.now().isoformat(" ", "seconds")
            path.write_text(f"process {os.getpid()} on {socket.gethostname()} (since {now})")
        yield
    finally:
        if lock.lock_counter == 1:
            # Before the lock is released, or it could be the file of another process.
            with contextlib.suppress(OSError):
                path.unlink()
        lock.release()


def claiming(method: F) -> F:
    """Makes a method run with `self.directory` claimed."""

    @functools.wraps(method)
    def run(self, *args, **kwargs):
        with claim(os.fspath(str(self.directory))):
            return method(self, *args, **kwargs)

    return run  # pyright: ignore[reportReturnType]


def _owner(path):
    try:
        return path.read_text() or "another process"
    except OSError:  # where a locked file cannot be read
        return "another process"
