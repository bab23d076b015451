"""Runs a script from its config, and reports errors in one line."""

import dataclasses
import errno
import inspect
import os
import pathlib
import re
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dann.config.building import distribution_of
from dann.config.config_checks import check_command, check_needs, check_objects
from dann.config.config_error import ConfigError
from dann.config.interruption import ending_with, stopped_by_signals
from dann.config.start_backend import start_backend
from dann.training.checkpoints import ResumeError
from dann.training.run_directory import RunDirectory

T = TypeVar("T")

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run_script(
    config_name: str,
    prepare: Callable[[DictConfig], T],
    work: Callable[[T], Any],
    is_done: Callable[[DictConfig], bool] | None = None,
) -> None:
    """Runs a script: composes its config from the command line, prepares, and does the work.

    An error in preparing is one that the user can fix: it is printed in one line on standard error,
    the exit status is 1, and the run directory that Hydra made is removed. An error in the work is
    also printed in one line, but the directory stays, if it is a mistake in the config, a number
    that is no longer finite, or a file that cannot be written. Any other error in the work is shown
    with its traceback. In a sweep (`-m`) the other jobs still run. `HYDRA_FULL_ERROR=1`
    shows all tracebacks. Ctrl-C and SIGTERM end the script at any time, with the exit status 130 or
    143.

    Args:
        config_name: Primary config in `conf/`, the folder beside that of the script.
        prepare: Function that checks the config, loads the data and builds the objects.
        work: Function that gets what `prepare` returns.
        is_done: Function of the config that returns whether nothing is left to do; it is called
            before large libraries are loaded. Defaults to `None`: there is always work to do.
    """
    job = _Job(prepare, work, is_done, os.environ.get("HYDRA_FULL_ERROR") == "1", os.getpid())
    conf = pathlib.Path(inspect.getfile(prepare)).resolve().parent.parent / "conf"
    main = hydra.main(version_base="1.3", config_path=str(conf), config_name=config_name)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then leaves its errors to us
    try:
        # Hydra only warns if a folder of configs is missing or a callback fails.
        for beginning in ("provider=hydra.searchpath", "Callback .* raised"):
            warnings.filterwarnings("error", beginning)
        with stopped_by_signals(_clean_up):
            main(job.run)()
    except Exception as error:
        # Before the first job any error is about the command, because Hydra raises plain ones too.
        kinds = HydraException, OmegaConfBaseException, UserWarning
        about_command = not job.begun or isinstance(error, kinds)
        if job.full_errors or not about_command:
            raise
        job.report(error)
    if job.failed:
        sys.exit(1)


@dataclasses.dataclass
class _Job:
    """What a script does with a config, of a sweep with each, perhaps in another process.

    Attributes:
        begun: The configs so far.
        failed: Whether one of them ended in an error that was reported.
    """

    prepare: Callable[[DictConfig], Any]
    work: Callable[[Any], Any]
    is_done: Callable[[DictConfig], bool] | None
    full_errors: bool
    launched_by: int
    begun: list[DictConfig] = dataclasses.field(default_factory=list)
    failed: bool = False

    def run(self, cfg: DictConfig) -> str | None:
        """Returns the error, if there is one."""
        with ending_with(self.launched_by, _undo):
            self.begun.append(cfg)
            try:
                if not _starts(cfg, self.is_done):
                    return None
                prepared = self.prepare(cfg)
            except Exception as error:
                return self._unprepared(error)
            try:
                self.work(prepared)
                return None
            except Exception as error:
                return self._unfinished(error)

    def _unprepared(self, error):
        """Ends a job after an error that the user can fix, or raises it again."""
        kinds = ValueError, TypeError, OmegaConfBaseException
        if self.full_errors or not _is_told(error, *kinds):
            raise error
        _undo()
        self.report(error)
        return str(error)

    def _unfinished(self, error):
        """Ends a job after an error of its work, so that others of a sweep run, or raises it."""
        if not self.full_errors and _is_told(error, FloatingPointError, ResumeError):
            self.report(error)
        elif HydraConfig.get().mode == RunMode.MULTIRUN:
            traceback.print_exc()
            self.failed = True
        else:
            raise error
        return str(error)

    def report(self, error: Exception) -> None:
        """Prints an error in one line, and lets the script fail."""
        self.failed = True
        _report(error, self.begun)


def _starts(cfg, is_done):
    """Checks the config, and starts the backend unless nothing is left to do."""
    check_command(cfg)
    distribution = distribution_of(cfg)
    if distribution.kind != "multi_host" and is_done is not None and is_done(cfg):
        return False
    check_needs(cfg)
    start_backend(distribution.connect)
    check_objects(cfg)
    return True


def _is_told(error, *kinds):
    """Whether to print an error as one line: errors of the config, of files, and of these kinds."""
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR)
    # Libraries wrap the system's errors about files in classes of their own.
    of_files = any(os.strerror(code) in str(error) for code in codes)
    return of_files or isinstance(error, (ConfigError, OSError, *kinds))


def _report(error, begun):
    """Prints an error and the first line of its cause, on one line."""
    message = str(error)
    nameless = isinstance(error, OSError) and error.errno and not error.filename
    if nameless and HydraConfig.initialized():  # such as a full disk
        given = OmegaConf.select(begun[-1], "run") if begun else None
        message = f"{message}; it was writing to {given or HydraConfig.get().runtime.output_dir}"
    cause = str(error.__cause__ or "").partition("\n")[0]
    if cause not in message and not isinstance(error, ConfigError | ValueError):
        message = f"{message}: {cause}"
    print(f"error: {_one_line(message + _known_beside(error))}", file=sys.stderr)


def _one_line(message):
    plain = _COLOURS.sub("", str(message))  # Keras marks words in errors
    return " ".join(plain.split())


def _known_beside(error):
    """What to add where a key is not known: the keys that its group has, or those of its name."""
    cause: Any = error.__cause__
    group: Any = getattr(cause, "parent_node", None)
    if not isinstance(error, ConfigCompositionException) or not OmegaConf.is_dict(group):
        return ""
    of_same_name = [each for each in _keys_below(group) if each.endswith(f".{cause.key}")]
    known = of_same_name or [str(key) for key in group if key not in ("_target_", "_partial_")]
    place = str(cause.full_key).rpartition(".")[0] or "The config"
    return f". {place} has {', '.join(known)}" if known else ""


def _keys_below(node: Any, above: str = "") -> Iterator[str]:
    for key in node if OmegaConf.is_dict(node) else ():
        yield f"{above}{key}"
        yield from _keys_below(node._get_node(key), f"{above}{key}.")


def _clean_up():
    _undo()
    ray: Any = sys.modules.get("ray")
    if ray is not None:  # its launcher, some of whose processes would stay for a while
        ray.shutdown()


def _undo():
    """Takes back what Hydra wrote for a job that has not begun; afterwards it changes nothing."""
    if HydraConfig.initialized():
        directory = pathlib.Path(HydraConfig.get().runtime.output_dir)
        _remove_unused(directory)


def _remove_unused(run_dir):
    """Removes a run directory if it holds only what Hydra put there."""
    here = pathlib.Path.cwd()
    kept = (RunDirectory(run_dir).config_file.parent.name, "run.lock")
    unused = run_dir.is_dir() and all(entry.name in kept for entry in run_dir.iterdir())
    if run_dir.resolve() in (here, *here.parents) or not unused:
        return
    shutil.rmtree(run_dir)
    if run_dir.parent.name in ("runs", "multirun") and not any(run_dir.parent.iterdir()):
        run_dir.parent.rmdir()
