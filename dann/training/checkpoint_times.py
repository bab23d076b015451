"""When a checkpoint is due."""

import re
import time
from typing import Any

from dann.checks import is_integer

_SECONDS = {"s": 1, "min": 60, "h": 3600}
_TIME = re.compile(r"(\d+(?:\.\d+)?) *(s|min|h)")
_LONG_EPOCH = 600.0


class CheckpointTimes:
    """Tells when a checkpoint is due.

    Args:
        every: `"epoch"`, which also means every 10 minutes within an epoch; a number of steps, at
            least 1; a time such as `"30s"`, `"10min"` or `"2h"`; or `None` for never.

    Raises:
        ValueError: If `every` has another value.
    """

    def __init__(self, every: Any):
        self.steps = self.seconds = None
        self.epochs = every == "epoch"
        self.never = every is None
        found = _TIME.fullmatch(every) if isinstance(every, str) else None
        if self.epochs:
            self.seconds = _LONG_EPOCH
        elif found and float(found[1]):
            self.seconds = float(found[1]) * _SECONDS[found[2]]
        elif is_integer(every) and every > 0:
            self.steps = int(every)
        elif not self.never:
            raise ValueError(
                "Argument `every` must be 'epoch', a number of steps above 0, a time such as "
                f"'30s', '10min' or '2h', or None. Received: every={every!r}"
            )
        self.written(0)

    def written(self, step: int) -> None:
        """Records that the checkpoint of a step has been written."""
        self._step = step
        self._time = time.monotonic()

    def is_due(self, step: int, epoch_ends: bool) -> bool:
        """Returns whether a checkpoint is due after a step."""
        if self.steps is not None:
            return step // self.steps > self._step // self.steps
        if epoch_ends and self.epochs:
            return True
        return self.seconds is not None and time.monotonic() - self._time >= self.seconds
