"""Runs a script from its config, and tells errors in one line."""

import contextlib
import difflib
import io
import logging
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import hydra
from hydra import errors
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

import dann.config.schema  # noqa: F401  configs name what it stores
from dann.checks import did_you_mean
from dann.config.building import ConfigError, check_targets, iterate_entries
from dann.training.run_directory import format_argument, quote

PACKAGE = pathlib.Path(__file__).parents[1]
# A wheel holds the configs in the package, a clone beside it.
CONF = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.is_dir())
# What a user can mend; any other error shows its traceback.
_TOLD = (ValueError, TypeError, OSError, ImportError, ArithmeticError)
_TOLD += (errors.HydraException, OmegaConfBaseException)
_HELP = " See --help"


def script(config_name: str) -> Callable[[Callable[[DictConfig], Any]], Callable[[], None]]:
    """Returns a decorator, which makes of a function of a config the main function of a script.

    It is `hydra.main` with the configs in `conf/`. An error that a user can mend is printed in one
    line on standard error, and the exit status is 1; of a sweep (`-m`) the other jobs still run.
    `HYDRA_FULL_ERROR=1` shows tracebacks.

    Args:
        config_name: Primary config in `conf/`.

    Example:

    ```python
    @script("train")
    def main(cfg): ...

    if __name__ == "__main__":
        main()
    ```
    """

    def decorate(work):
        def main():
            _prepare_process()
            told = () if os.environ.get("HYDRA_FULL_ERROR") == "1" else _TOLD
            failed: list[Exception] = []
            os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then leaves its errors to us
            # First, because argparse takes no values on both sides of a flag.
            sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))

            def job(cfg):
                folder = pathlib.Path(HydraConfig.get().runtime.output_dir)
                with _removed_if_empty(folder), _in_one_line(told, failed):
                    check_config(cfg)
                    work(cfg)

            start = hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)
            with _in_one_line(told, failed):
                start(job)()
            if failed:
                sys.exit(1)

        return main

    return decorate


def check_config(cfg: DictConfig) -> None:
    """Raises `ConfigError` for what would go unnoticed, or be found late.

    These are keys outside the schema, which an experiment or `+key=value` can add, values that are
    missing, targets that may not be called, and a folder of data that does not exist.
    """
    OmegaConf.merge(OmegaConf.structured(OmegaConf.get_type(cfg)), OmegaConf.to_container(cfg))
    missing = OmegaConf.missing_keys(cfg)
    if "data" not in missing:
        told = {"data.sources": {"data.source"}, "data.path": {"data.source", "data.target"}}
        for key, needless in told.items():
            missing -= needless if OmegaConf.select(cfg, key) else set()
    if missing:
        raise ConfigError(f"Missing required key: {', '.join(sorted(missing))}")
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    plain.pop("data", None)  # whose own list is shorter
    check_targets(plain)
    data_dir = cfg.paths.data_dir
    if data_dir is not None and not pathlib.Path(data_dir).is_dir():
        raise ConfigError(f"paths.data_dir must be an existing directory. Received: {data_dir}")


@contextlib.contextmanager
def _in_one_line(told, failed):
    """Tells errors of the types `told` in one line, and adds them to the list `failed`."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except told as error:
        failed.append(error)
        print(f"error: {' '.join(explain_error(error).split())}", file=sys.stderr, flush=True)


def explain_error(error: Exception) -> str:
    """Returns what an error says, in a user's words where Hydra's are of its own insides."""
    cause: Any = error.__cause__
    if isinstance(error, errors.OverrideParseException):
        return _explained_override(error.override)
    if isinstance(error, errors.MissingConfigException):
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        options = error.options or sorted(file.stem for file in (CONF / group).glob("*.yaml"))
        return f"No {group}={name}.{did_you_mean(name.lower(), options) or _HELP}"
    if isinstance(error, errors.InstantiationException) and cause is not None:
        return f"{str(error).rpartition('full_key: ')[2]}: {cause}"
    for one in (error, cause):
        if isinstance(one, ConfigKeyError | ConfigAttributeError):
            return f"No key {one.full_key}.{_similar_keys(one)}"
    first = str(error).partition("\n")[0].removeprefix("Error merging override ")
    if first.startswith("Ambiguous value"):
        key, _, value = first.partition("'")[2].rstrip("'").partition("=")
        meant = format_argument(key, value)
        return f"{first}. A sweep over several values needs -m; one value with commas, {meant}"
    if isinstance(error, OmegaConfBaseException):
        return f"{error.full_key}: {first}" if error.full_key else first
    if isinstance(error, errors.ConfigCompositionException) and cause:
        why = str(cause).partition("\n")[0]
        if whole := re.match(r"Value '(\d+)\.0' of type 'float' .* Integer", why):
            why += f". Did you mean {whole[1]}?"
        return f"{first}: {'it is a list: write [a,b]' if 'not a ListConfig' in why else why}"
    return str(error) or type(error).__name__


def _explained_override(text):
    """What is wrong with an argument that Hydra cannot read."""
    key, equals, value = text.partition("=")
    if not equals:
        is_path = "/" in text or pathlib.Path(text).exists()
        meant = f" Did you mean {format_argument('run', text)}?" if is_path else ""
        return f"Arguments are key=value.{meant} Received: {text}"
    items = value.strip("[]").split(",")
    if not all(items):
        return f"A value is missing beside a comma; no space may follow one. Received: {text}"
    whole = format_argument(key, value)
    if value.startswith("["):
        whole = f"'{key}=[{','.join(map(quote, items))}]'"
    return f"Text with special characters needs quotes: {whole}. Received: {text}"


def _similar_keys(cause):
    """At most three keys that may be meant, by the whole name, the last part or its initials."""
    given = str(cause.key)
    group: Any = OmegaConf.to_container(cause.parent_node)
    group.pop("hydra", None)
    names = {key: _short_names(key) for key, _ in iterate_entries(group) if "._" not in f".{key}"}
    near = [key for key in names if given in names[key]]
    if not near:
        words = {*names, *(names[key][0] for key in names)}
        alike = difflib.get_close_matches(given, words, n=3, cutoff=0.7)
        near = [key for word in alike for key in names if word in (key, names[key][0])]
        near = list(dict.fromkeys(near))
    above = str(cause.full_key).removesuffix(given)
    return f" Did you mean {', '.join(above + key for key in near[:3])}?" if near else _HELP


def _short_names(key):
    last = key.rpartition(".")[2]
    return last, "".join(word[0] for word in last.split("_") if word)


def _prepare_process():
    """Makes Ctrl-C raise, outputs that are closed or narrow take all text, and libraries quiet."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it is closed
            setattr(sys, name, io.StringIO())
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    for name in ("absl", "jax"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # each model that is evaluated retraces


@contextlib.contextmanager
def _removed_if_empty(directory):
    """Removes the directory that Hydra made for a run, if nothing was written to it."""
    try:
        yield
    finally:
        for folder in (directory, directory.parent):
            with contextlib.suppress(OSError):
                if folder != pathlib.Path.cwd():
                    folder.rmdir()
