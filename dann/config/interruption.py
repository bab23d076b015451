"""Lets Ctrl-C and SIGTERM end a script wherever it is."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

_PATIENCE = 3.0  # seconds


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM end the process with the exit status 130 or 143.

    They raise an exception, so that drafts are removed on the way out. Libraries swallow such
    exceptions, in imports above all; so what is still running after 3 seconds, or gets a second
    signal, ends at once. A training that is under way has its own way to stop; see
    `dann.training.fit`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = []

    def stop(number, frame):
        status = 128 + number
        if asked:
            os._exit(status)
        asked.append(number)
        print("Stopped.", file=sys.stderr, flush=True)
        end = threading.Timer(_PATIENCE, os._exit, (status,))
        end.daemon = True
        end.start()
        raise SystemExit(status)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:  # of a training
        sys.exit(128 + signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
