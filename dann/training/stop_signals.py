"""Makes a signal end a training after the current step, not in the middle of it."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator


class StopRequest:
    """Whether a signal has asked the training to stop, and which."""

    def __init__(self):
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def stop(self) -> None:
        """Ends the training as the signal asks: by `KeyboardInterrupt` or an exit status."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or 0))


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Yields a `StopRequest` that records SIGTERM and Ctrl-C instead of letting them interrupt.

    A second Ctrl-C ends the process at once. Python handles signals only in the main thread, so in
    another thread the request stays empty.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(number, frame):
        if request and number == signal.SIGINT:
            os._exit(128 + number)
        request.signal = number
        print("Stopping after this step.", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
