"""Holds back what libraries write to standard error as they are loaded."""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator

# Messages of TensorFlow's C++ libraries that report no problem, such as
# "I0000 00:00:1795439056.195333   20586 port.cc:153] oneDNN custom operations are on."
_INFORMATION = re.compile(
    rb"I\d{4} [\d:.]+ +\d+ \S+\] |WARNING: All log messages before absl::"
    rb"|To enable the following instructions: "
)


@contextlib.contextmanager
def held_back(is_shown: Callable[[bytes], object] = lambda line: False) -> Iterator[None]:
    """Hides what is written to the file descriptor of standard error, and shows it after an error.

    Args:
        is_shown: Function of a line that returns whether to show it at the end all the same.
            Defaults to none.
    """
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    with os.fdopen(kept, "wb") as standard_error, tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            is_shown = bool
            raise
        finally:
            os.dup2(kept, 2)
            held.seek(0)
            standard_error.writelines(filter(is_shown, held))


def is_no_information(line: bytes) -> bool:
    """Returns whether a line is not one of TensorFlow's messages that report no problem."""
    return not _INFORMATION.match(line)
