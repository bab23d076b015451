"""Scripts: a composed config, what prepares the work, and the work."""

import errno
import inspect
import os
import pathlib
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dann.config.allowed_targets import GROUPS
from dann.config.config_error import ConfigError
from dann.config.instantiation import check_packages, check_targets
from dann.config.startup import start_backend
from dann.training import RunDirectory

T = TypeVar("T")

_OF_THE_USER = (ConfigError, ValueError, TypeError, OmegaConfBaseException)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run_script(
    config_name: str, prepare: Callable[[DictConfig], T], work: Callable[[T], Any]
) -> None:
    """Runs a script: composes its config from the command line, prepares, and does the work.

    The user can mend an error in preparing: it is told in one line on standard error, the exit
    status is 1, and the run directory that Hydra made is removed. So are numbers that are no longer
    finite and files that cannot be written, in the work; but the directory stays. Any other error
    in the work is shown in full. In a sweep (`-m`) the other jobs go on. With `HYDRA_FULL_ERROR=1`
    all are shown in full.

    Args:
        config_name: Primary config in `conf/`, which lies beside the folder of the script.
        prepare: Function of the config that checks it, loads and builds.
        work: Function of what `prepare` returns.
    """
    full_errors = os.environ.get("HYDRA_FULL_ERROR") == "1"
    failed = []

    def job(cfg: DictConfig) -> None:
        try:
            check_packages(OmegaConf.to_container(cfg, resolve=True))
            _check_paths(cfg)
            _check_given(cfg)
            _check_emptied(cfg, HydraConfig.get().overrides.task)
            start_backend()
            check_config(cfg)
            prepared = prepare(cfg)
        except Exception as error:
            if full_errors or not (isinstance(error, _OF_THE_USER) or _is_of_files(error)):
                raise
            _remove_unused(pathlib.Path(HydraConfig.get().runtime.output_dir))
            failed.append(error)
            _report(error)
            return
        try:
            work(prepared)
        except Exception as error:
            if not full_errors and (isinstance(error, FloatingPointError) or _is_of_files(error)):
                _report(error)
            elif HydraConfig.get().mode == RunMode.MULTIRUN:
                traceback.print_exc()
            else:
                raise
            failed.append(error)

    conf = pathlib.Path(inspect.getfile(prepare)).resolve().parent.parent / "conf"
    main = hydra.main(version_base="1.3", config_path=str(conf), config_name=config_name)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then leaves its errors to us
    try:
        main(job)()
    except (HydraException, OmegaConfBaseException, OSError) as error:  # also of Hydra's own files
        if full_errors:
            raise
        failed.append(error)
        _report(error)
    if failed:
        sys.exit(1)


def _is_of_files(error):
    """Whether an error is of files, which the libraries below may raise by classes of their own."""
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR)
    return isinstance(error, OSError) or any(os.strerror(code) in str(error) for code in codes)


def check_config(cfg: Any) -> None:
    """Raises `ConfigError` for a target or an argument that is refused, before any is built."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    for group in GROUPS:
        if group in plain:
            check_targets(plain[group], group)


def _check_paths(cfg):
    data_dir = cfg.paths.data_dir
    if data_dir is not None and not pathlib.Path(data_dir).expanduser().is_dir():
        raise ConfigError(f"paths.data_dir must be a directory that is there. Received: {data_dir}")
    # What reads a run finds its config beside its results, where Hydra writes it.
    given, used = pathlib.Path(cfg.paths.run_dir), HydraConfig.get().runtime.output_dir
    if given.resolve() != pathlib.Path(used).resolve():
        raise ConfigError(
            "paths.run_dir only tells where the run is; choose it by hydra.run.dir=, or "
            f"hydra.sweep.dir= with -m. Received: paths.run_dir={given}"
        )


def _check_given(cfg):
    several = {"data.source"} if OmegaConf.select(cfg, "data.sources") else set()
    missing = sorted(OmegaConf.missing_keys(cfg) - several)
    if missing:
        raise ConfigError(f"{', '.join(missing)} must be given. Received: nothing")


def _check_emptied(cfg, overrides):
    """Refuses `key={}`, which Hydra merges with what is there, so that nothing changes."""
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.key_or_group
        kept = OmegaConf.select(cfg, key) if override.value() == {} else None
        if OmegaConf.is_dict(kept) and kept:
            raise ConfigError(f"{key}={{}} changes nothing; use {key}=null. Received: {key}={{}}")


def _report(error):
    """Prints an error and the first line of its cause, on one line."""
    message = str(error)
    if isinstance(error, OSError) and error.errno and not error.filename:  # such as a full disk
        message = f"{message}; it was writing to {HydraConfig.get().runtime.output_dir}"
    cause = str(error.__cause__ or "").partition("\n")[0]
    if cause not in message and not isinstance(error, ConfigError):
        message = f"{message}: {cause}"
    plain = _COLOURS.sub("", message)  # Keras marks words in errors
    print(f"error: {' '.join(plain.split())}", file=sys.stderr)


def _remove_unused(run_dir):
    """Removes a run directory that holds nothing but what Hydra put there."""
    here = pathlib.Path.cwd()
    if run_dir.resolve() in (here, *here.parents) or not RunDirectory(run_dir).is_unused():
        return
    shutil.rmtree(run_dir)
    if run_dir.parent.name in ("runs", "multirun") and not any(run_dir.parent.iterdir()):
        run_dir.parent.rmdir()
