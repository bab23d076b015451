"""Commands in processes of their own, which end when their starter is interrupted."""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def interrupted_by_termination() -> Iterator[None]:
    """Lets SIGTERM, which `timeout` and batch systems send, raise `KeyboardInterrupt` too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Processes:
    """Runs commands from threads, until another thread ends them all.

    Python raises an interruption in the main thread alone, which could come between the start of a
    process and the note of it; here no process goes unnoticed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: list[subprocess.Popen] = []
        self._ended = False

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Waits for a command.

        Args:
            command: The program and its arguments.
            **options: Of `subprocess.Popen`.

        Returns:
            The exit status; below 0 if a signal ended it. -1 if `end` was called before it began.
        """
        with self._lock:
            if self._ended:
                return -1
            process = subprocess.Popen(command, **options)
            self._begun.append(process)
        return process.wait()

    def end(self) -> None:
        """Ends what runs, and begins nothing from now on."""
        with self._lock:
            self._ended = True
            for process in self._begun:
                process.terminate()  # nothing happens to one that is over
