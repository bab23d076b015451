"""Keeps the directory of a run for one command, as a callback of Hydra."""

import atexit
import contextlib
import sys
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from dann.training.directory_claim import claim


class Claim(Callback):
    """Claims the directory of a run or a sweep before Hydra writes to it, until its end.

    A second command in the same directory ends with one line, which names the first.
    """

    def __init__(self) -> None:
        self._claimed = contextlib.ExitStack()
        atexit.register(self._claimed.close)  # Hydra does not tell of an end by a signal

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claims the directory of a run."""
        self._claim(config.hydra.run.dir)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claims the directory of a sweep."""
        self._claim(config.hydra.sweep.dir)

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Lets go of the directory."""
        self._claimed.close()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Lets go of the directory."""
        self._claimed.close()

    def _claim(self, directory):
        try:
            self._claimed.enter_context(claim(directory))
        except OSError as error:
            # Hydra turns other exceptions of a callback into warnings.
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
