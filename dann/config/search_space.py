"""The search space of a study, in Hydra's syntax for sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from dann.config.config_error import ConfigError

_SCHEMA = (
    "Each line of `space` must be a key and what it may be: key=interval(low,high), "
    "key=tag(log,interval(low,high)), key=int(interval(low,high)) or key=choice(a,b,...)"
)


def search_space(lines: Sequence[str]) -> dict[str, Any]:
    """Reads a search space.

    Args:
        lines: One line for each key: `key=interval(low,high)`, with both ends included;
            `key=int(interval(low,high))` for whole numbers; `key=tag(log,interval(low,high))` for a
            logarithmic scale; or `key=choice(a,b,...)`, in short `key=a,b`.

    Returns:
        Optuna's distributions by key. The options of a choice are text, as on the command line.

    Raises:
        ConfigError: If there are no lines, a line has another form, `low` is not below `high` or
            not above 0 on a logarithmic scale, or a key occurs twice.
    """
    if not lines:
        raise ConfigError(f"{_SCHEMA}. Received: no lines")
    space: dict[str, Any] = {}
    for line in lines:
        override = _parsed(line)
        key = override.get_key_element()
        if key in space:
            raise ConfigError(f"{_SCHEMA}, and each key once. Received: {key} twice")
        space[key] = _distribution(line, override)
    return space


def scores_of_trials(overrides: Sequence[str], space: Mapping[str, Any]) -> list[str]:
    """Returns the label-free scores that the trials of a study compute.

    Works only within a script, because it reads the script's `conf/`. Every key of the space, and
    every option of a choice, must be one that `scripts/train.py` takes.

    Args:
        overrides: Arguments of every trial.
        space: What `search_space` returns.

    Raises:
        ConfigError: If a key or an option is unknown.
    """
    options = {key: getattr(d, "choices", None) or (d.low,) for key, d in space.items()}
    first = {key: values[0] for key, values in options.items()}
    changed = [{**first, key: value} for key, values in options.items() for value in values[1:]]
    scores = []
    for values in (first, *changed):
        arguments = [*overrides, *(f"{key}={value}" for key, value in values.items())]
        try:
            scores.append(list(compose("train", arguments).selection.scores))
        except (HydraException, OmegaConfBaseException) as error:
            cause = f"{error} {error.__cause__ or ''}".strip()
            raise ConfigError(f"A trial would be refused: {cause}") from error
    return scores[0]


def _parsed(line) -> Override:
    try:
        override = OverridesParser.create().parse_override(line)
    except HydraException as error:
        raise ConfigError(f"{_SCHEMA}. Received: {line}") from error
    if not override.is_sweep_override():
        raise ConfigError(f"{_SCHEMA}; one value belongs into `overrides`. Received: {line}")
    return override


def _distribution(line, override):
    from optuna import distributions

    sweep = override.value()
    if isinstance(sweep, ChoiceSweep):
        return distributions.CategoricalDistribution(list(override.sweep_string_iterator()))
    if not isinstance(sweep, IntervalSweep) or sweep.start is None or sweep.end is None:
        raise ConfigError(f"{_SCHEMA}. Received: {line}")
    log = "log" in sweep.tags
    if not sweep.start < sweep.end or (log and sweep.start <= 0):
        raise ConfigError(
            "An interval must go from low to high, above 0 on a logarithmic scale. "
            f"Received: {line}"
        )
    if isinstance(sweep.start, int) and isinstance(sweep.end, int):
        return distributions.IntDistribution(sweep.start, sweep.end, log=log)
    return distributions.FloatDistribution(sweep.start, sweep.end, log=log)
