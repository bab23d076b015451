"""Commands in processes of their own, which end when the program that began them does."""

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def ended_by_interruption() -> Iterator[None]:
    """Ends the program with a line on Ctrl-C or SIGTERM, with the exit status 130 or 143.

    Within the block both raise `KeyboardInterrupt`, so that the processes that have begun can be
    ended first.
    """
    numbers, received = (signal.SIGINT, signal.SIGTERM), [signal.SIGINT]

    def interrupt(number, frame):
        received[0] = number
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to continue.", file=sys.stderr)
        sys.exit(128 + received[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Processes:
    """Runs commands from several threads, until one thread ends them all.

    Python raises an interruption in the main thread alone, possibly between the start of a process
    and the line that would remember it. Here no process is forgotten.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: list[subprocess.Popen] = []
        self._ended = False

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Runs a command and waits for its end.

        Args:
            command: The program and its arguments.
            **options: Arguments of `subprocess.Popen`.

        Returns:
            The exit status; below 0 if a signal ended it, -1 if `end` was called before it began.
        """
        with self._lock:
            if self._ended:
                return -1
            process = subprocess.Popen(command, **options)
            self._begun.append(process)
        return process.wait()

    def end(self) -> None:
        """Ends every running command and lets no other begin."""
        with self._lock:
            self._ended = True
            for process in self._begun:
                process.terminate()  # nothing happens to one that is over
