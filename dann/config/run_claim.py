"""Locks the directory of a run for one command, as a callback of Hydra."""

import atexit
import contextlib
import sys
from typing import Any, NoReturn

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from dann.config.config_error import ConfigError
from dann.training.files_on_disk import lock_directory
from dann.training.run_directory import RunDirectory


class Claim(Callback):
    """Claims the directory of a run or a sweep before Hydra writes to it, and until it ends.

    Of several processes that train together, process 0 alone does; the others get a temporary
    folder. A second command in the same directory ends with a message that names the first. A
    command with another `hydra.output_subdir` ends with a message too, because its config would not
    be found.
    """

    def __init__(self) -> None:
        self._claimed = contextlib.ExitStack()
        atexit.register(self._claimed.close)  # after a signal, Hydra does not call `on_run_end`

    def __reduce__(self):
        return type(self), ()  # a launcher's workers claim nothing

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Checks where Hydra writes; a run locks its directory itself."""
        _check_folder(config.hydra.output_subdir, config.hydra.run.dir)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claims the directory of a sweep."""
        if OmegaConf.select(config, "distribution.kind") == "multi_host":
            _refuse(
                "Several processes train one run at a time; give each its own command. Received: "
                "distribution=multi_host with -m"
            )
        self._claim(config.hydra, config.hydra.sweep.dir)

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Releases the directory."""
        self._claimed.close()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Releases the directory."""
        self._claimed.close()

    def _claim(self, hydra, directory):
        try:
            _check_folder(hydra.output_subdir, directory)
            self._claimed.enter_context(lock_directory(directory))
        except (ConfigError, OSError) as error:
            _refuse(error)


def _refuse(error) -> NoReturn:
    # Hydra turns other exceptions of a callback into warnings.
    print(f"error: {error}", file=sys.stderr)
    sys.exit(1)


def _check_folder(given, directory):
    """Raises `ConfigError` unless the config goes to the folder where `RunDirectory` reads it."""
    known = RunDirectory(directory).config_file.parent.name
    if given != known:
        raise ConfigError(f"hydra.output_subdir must be {known}. Received: {given}")
