"""Makes Ctrl-C and SIGTERM end a script at any point."""

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stopped_by_signals(clean_up: Callable[[], None]) -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM end the process with the exit status 130 or 143.

    They raise no exception, because libraries may swallow it or abort while they are imported. A
    file that is being written stays a draft, as if the process had been killed. A running training
    handles the signals itself; see `dann.training.fit`. Before the block a script lets SIGINT end
    the process at once; after it, SIGINT raises `KeyboardInterrupt`, as is usual in Python.

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
        if before[signal.SIGINT] in (signal.SIG_DFL, None):
            before[signal.SIGINT] = signal.default_int_handler
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def ending_with(launcher: int, clean_up: Callable[[], None]) -> Iterator[None]:
    """Within the block, a process that a launcher of sweeps has started ends as a script does.

    If the launcher is this process's parent, the process also gets SIGTERM when the launcher has
    ended, however that happened. In the launcher itself nothing changes.

    Args:
        launcher: Number of the launcher's process.
        clean_up: As in `stopped_by_signals`.
    """
    if os.getpid() == launcher:
        yield
        return
    _follow(launcher)
    with stopped_by_signals(clean_up):
        yield


@functools.cache
def _follow(launcher):
    """Ends this process when its parent, the launcher, has ended."""

    def watch():
        while os.getppid() == launcher:
            time.sleep(0.5)
        while True:  # until no handler keeps the process alive
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)

    if os.getppid() == launcher:
        threading.Thread(target=watch, daemon=True).start()
