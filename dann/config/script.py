"""Runs a script from its config, and prints each error on one line."""

import contextlib
import io
import logging
import os
import pathlib
import re
import shlex
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import hydra
from hydra import compose, errors, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dann.checks import check_choice, check_integer
from dann.config.data_paths import find_missing_path
from dann.config.errors import ConfigError, explain_error, find_similar_keys
from dann.config.schema import CONF
from dann.training.overrides import format_argument

# Errors that a user can fix; any other error prints its traceback.
_USER_ERRORS = (ValueError, TypeError, OSError, ImportError, ArithmeticError)
_USER_ERRORS += (errors.HydraException, OmegaConfBaseException)
# `~/` at the start of a value or of an element of a list.
_HOME = re.compile(r"""(?<=[=,\[])(["']?)~(?=/)""")
_HYDRA_FLAGS = (
    *("help", "hydra-help", "version", "cfg", "resolve", "package", "run", "multirun", "info"),
    *("shell-completion", "config-path", "config-name", "config-dir", "experimental-rerun"),
)


def script(config_name: str) -> Callable[[Callable[[DictConfig], Any]], Callable[[], None]]:
    """Returns a decorator that turns a function of a config into the main function of a script.

    The main function is `hydra.main` with the configs in `conf/`. An error that a user can fix is
    printed on one line to standard error, and the exit status is 1. In a sweep (`-m`) the other
    jobs still run. `HYDRA_FULL_ERROR=1` prints tracebacks.

    Neither this module nor the composition of a config imports Keras. Import other modules inside
    the function, so that `--help` and most errors do not wait for Keras.

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
            user_errors = () if os.environ.get("HYDRA_FULL_ERROR") == "1" else _USER_ERRORS
            failures: list[Exception] = []
            os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors
            home = os.path.expanduser("~")  # Hydra would create a folder of the name ~
            words = [_HOME.sub(lambda match: match[1] + home, word) for word in sys.argv[1:]]
            # -m comes first, because argparse takes no values on both sides of a flag.
            sys.argv[1:] = sorted(words, key=lambda word: word not in ("-m", "--multirun"))

            def job(cfg) -> bool | None:
                with _remove_empty_folders(), _print_errors(user_errors, failures):
                    check_config(cfg)
                    work(cfg)
                    return True  # `Ranking` reads it

            start = hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)
            help_text = io.StringIO()
            stdout = sys.stdout if {"-h", "--help"}.isdisjoint(sys.argv) else help_text
            try:
                with contextlib.redirect_stdout(stdout), _print_errors(user_errors, failures):
                    _check_flags(sys.argv[1:], config_name)
                    start(job)()
            finally:  # Hydra exits after the help
                for line in _describe_keys(help_text.getvalue(), config_name):
                    print(textwrap.fill(line, 100, subsequent_indent="  ", break_on_hyphens=False))
            if failures:
                sys.exit(1)

        return main

    return decorate


def _describe_keys(text, config_name):
    """Yields the lines of a help text; keys are followed by their comments in `conf/`."""
    defaults = (CONF / f"{config_name}.yaml").read_text("utf-8")
    choices = dict(re.findall(r"^  - (\w+): (\w+)", defaults, re.M))
    choices |= {key: value for key, _, value in (word.partition("=") for word in sys.argv)}
    paths = {f"  {group}.": CONF / group / f"{choice}.yaml" for group, choice in choices.items()}
    comments = {
        prefix + key: comment
        for prefix, path in {"": CONF / f"{config_name}.yaml", **paths}.items()
        if path.is_file()
        for key, comment in re.findall(r"^(\w+): .*?  # (.*)", path.read_text("utf-8"), re.M)
    }
    group = ""
    for line in text.splitlines():
        key = line.partition(":")[0]
        group = group if key.startswith(" ") else key
        name = key if group == key else f"  {group}.{key.removeprefix('  ')}"
        comment = f"  # {comments[name]}" if name in comments else ""
        yield line.replace(": ???", ": (required)") + comment


def format_command(name: str) -> str:
    """Returns the command that runs a script: `dann-<name>` if such a command is running."""
    if "dann_commands" in sys.modules:
        return f"dann-{name}"
    return f"python {os.path.relpath(CONF.parent / 'scripts' / name)}.py"


OmegaConf.register_new_resolver("command", format_command, replace=True)


def check_config(cfg: DictConfig) -> None:
    """Checks a composed config for mistakes that Hydra ignores or that would fail late.

    Raises:
        ConfigError: If a required value is missing, a `_target_` may not be called, or `run` or
            `paths.data_dir` is not a directory.
        ValueError: If a count in `trainer` is below 1, or a score of `selection` is unknown.
        hydra.errors.InstantiationException: If `schedule` is invalid.
        omegaconf.errors.OmegaConfBaseException: If an experiment or `+key=value` added a key that
            the schema lacks.
    """
    OmegaConf.merge(OmegaConf.structured(OmegaConf.get_type(cfg)), OmegaConf.to_container(cfg))
    missing = OmegaConf.missing_keys(cfg)
    if "data" not in missing:
        replaced = {"data.sources": {"data.source"}, "data.path": {"data.source", "data.target"}}
        for key, optional in replaced.items():
            if OmegaConf.select(cfg, key):
                missing -= optional
    if missing:
        hint = ". Write run=<run directory>" if "run" in missing else ""
        raise ConfigError(f"Missing required key: {', '.join(sorted(missing))}{hint}")
    data_dir = cfg.paths.data_dir
    if data_dir is not None and not pathlib.Path(data_dir).is_dir():
        raise ConfigError(f"paths.data_dir must be an existing directory. Received: {data_dir}")
    run = OmegaConf.select(cfg, "run")
    if run is not None and not pathlib.Path(run).is_dir():
        raise ConfigError(f"run must be an existing directory of a finished run. Received: {run}")
    if run is not None and pathlib.Path(run, ".hydra/config.yaml").is_file():
        file = "checkpoints/last.keras" if "diagnostics" in cfg else "classifier.keras"
        if not any(pathlib.Path(run, name).is_file() for name in (file, "summary.json")):
            overrides = pathlib.Path(run, ".hydra/overrides.yaml")
            words = map(shlex.quote, OmegaConf.load(overrides) if overrides.is_file() else [])
            arguments = *words, format_argument("hydra.run.dir", run), "resume=true"
            advice = f"{format_command('train')} {' '.join(arguments)}"
            expected = f"Expected a finished run. Resume it: {advice}"
            raise ConfigError(f"{expected}. Received: no {run}/{file}")
    for key in ("target", "labels_file"):
        if (path := OmegaConf.select(cfg, key)) is not None and not os.path.exists(path):
            raise ConfigError(f"{key}: no such file or folder: {os.path.abspath(path)}")
    for name in ("steps", "steps_per_epoch", "epochs", "batch_size"):
        if (value := OmegaConf.select(cfg, key := f"trainer.{name}")) is not None:
            check_integer(key, value, low=1)
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    data = plain.pop("data", None)  # `build_domains` checks it against a shorter list
    is_resumed = OmegaConf.select(cfg, "resume")  # a finished run needs no data
    if data and not is_resumed and (missing_path := find_missing_path(data, cfg.paths.work_dir)):
        raise ConfigError(missing_path)
    with _delay_interrupt(), hide_native_logs():
        import keras

        from dann.config.building import check_targets, instantiate
        from dann.selection.scores import resolve_scores

        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            tf.config.list_physical_devices()  # logs an error if there is no GPU
    check_targets(plain)
    if "selection" in cfg:
        instantiate({"schedule": plain["schedule"]})  # errors would name a key that refers to it
        names = None, *resolve_scores(cfg.selection.scores)
        check_choice("selection.keep", cfg.selection.keep, names)
        names = None, "agreement", *resolve_scores(["all"])
        check_choice("selection.rank_by", cfg.selection.rank_by, names)


def _check_flags(words, config_name):
    """Raises `ConfigError` for a key that is written as a flag, such as `--steps 10`."""
    for index, word in enumerate(words):
        flag, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or any(name.startswith(flag) for name in _HYDRA_FLAGS):
            continue
        following = words[index + 1 : index + 2]
        if not value and following and "=" not in following[0]:
            value = following[0]
            word = f"{word} {value}"
        with initialize_config_dir(str(CONF), version_base="1.3"):
            keys = find_similar_keys(flag.replace("-", "_"), compose(config_name))
        hint = " or ".join(f"{key}={value}" for key in keys) or "key=value; see --help"
        raise ConfigError(f"Arguments are written without dashes: {hint}. Received: {word}")


@contextlib.contextmanager
def _print_errors(user_errors, failures) -> Iterator[None]:
    """Prints errors of the types `user_errors` on one line, and appends them to `failures`."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except user_errors as error:
        failures.append(error)
        print(f"error: {' '.join(explain_error(error).split())}", file=sys.stderr, flush=True)


def _prepare_process():
    """Restores Ctrl-C, replaces characters that the terminal cannot encode, and silences logs.

    Warnings are printed on one line, as errors are.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed
            setattr(sys, name, io.StringIO())
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    for name in ("absl", "jax", "tf2onnx"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # TensorFlow warns when models are retraced, which every evaluation does.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)


@contextlib.contextmanager
def _delay_interrupt() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block, because imports may ignore it or abort."""
    if threading.current_thread() is not threading.main_thread():  # receives no signals
        yield
        return
    numbers: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: numbers.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if numbers:
            raise KeyboardInterrupt


@contextlib.contextmanager
def hide_native_logs() -> Iterator[None]:
    """Discards what native code writes to standard error, unless TF_CPP_MIN_LOG_LEVEL is 0 or 1.

    TensorFlow logs during its import, before it reads this variable, and when it looks for devices.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # closed
        stderr = None
    if stderr is None or os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1"):
        yield
        return
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextlib.contextmanager
def _remove_empty_folders() -> Iterator[None]:
    """Removes the folders that Hydra created for a run if nothing was written to them."""
    hydra: Any = HydraConfig.get()
    folders = hydra.runtime.get("new_folders", [])
    if hydra.mode == RunMode.MULTIRUN:
        folders = [hydra.runtime.output_dir]
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # raised by a folder that is not empty
            for folder in folders:
                os.rmdir(folder)
