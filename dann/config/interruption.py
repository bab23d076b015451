"""Makes Ctrl-C and SIGTERM end a script at any point."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stopped_by_signals(clean_up: Callable[[], None]) -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM end the process with the exit status 130 or 143.

    They raise no exception, because libraries may swallow it or abort while they are imported. A
    file that is being written stays a draft, as if the process had been killed. A running training
    handles the signals itself; see `dann.training.fit`.

    Args:
        clean_up: Function that is called before the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        signal.signal(number, lambda *_: os._exit(128 + number))  # if cleaning up takes too long
        print("Stopped.", file=sys.stderr, flush=True)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            clean_up()
        os._exit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:  # of a training
        sys.exit(128 + signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
