"""Locks the directory of a run for one command, as a callback of Hydra."""

import atexit
import contextlib
import sys
import tempfile
from typing import Any, NoReturn

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from dann.config.building import distribution_of
from dann.config.config_error import ConfigError
from dann.training.directory_claim import claim
from dann.training.process_group import before_exit
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
        """Claims the directory of a run."""
        if "distribution" in config and not self._leads(config):
            self._work_elsewhere(config.hydra)
        else:
            self._claim(config.hydra, config.hydra.run.dir)

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

    def _leads(self, config):
        try:
            distribution = distribution_of(config)
            distribution.check_batch_size(config.trainer.batch_size)
        except (TypeError, ValueError) as error:
            _refuse(error)
        return distribution.leads

    def _work_elsewhere(self, hydra):
        """Gives each non-leading process a temporary folder."""
        folder = self._claimed.enter_context(tempfile.TemporaryDirectory(prefix="dann"))
        before_exit(self._claimed.close)
        with read_write(hydra), open_dict(hydra):
            hydra.run.dir, hydra.output_subdir = folder, None

    def _claim(self, hydra, directory):
        try:
            _check_folder(hydra.output_subdir, directory)
            self._claimed.enter_context(claim(directory))
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
