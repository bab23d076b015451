"""What a run's settings must be, and how those of two differ; needs neither Keras nor the data."""

from collections.abc import Mapping, Sequence
from typing import Any

from dann.checks import check_choice, check_integer
from dann.training.checkpoint_times import CheckpointTimes

PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64")


def check_trainer(trainer: Any) -> None:
    """Checks the settings that `dann.training.Run` takes as `trainer`.

    Raises:
        TypeError: If a number is not an integer; `steps_per_execution` may be `"auto"`.
        ValueError: If one is below 1, or `steps` is not a multiple of `steps_per_epoch`, or that
            not one of `steps_per_execution`.
    """
    for key in ("steps", "steps_per_epoch", "batch_size", "check_every"):
        check_integer(f"trainer.{key}", getattr(trainer, key), low=1)
    each = min(trainer.steps, trainer.steps_per_epoch)
    if trainer.steps % each:
        raise ValueError(
            "trainer.steps must be a multiple of trainer.steps_per_epoch. "
            f"Received: {trainer.steps} steps, {trainer.steps_per_epoch} an epoch"
        )
    together = trainer.steps_per_execution
    if together == "auto":
        return
    check_integer("trainer.steps_per_execution", together, low=1, why="or 'auto'")
    if each % together:
        raise ValueError(
            "trainer.steps_per_epoch must be a multiple of trainer.steps_per_execution. "
            f"Received: {each} and {together}"
        )


def check_jit_compile(value: Any) -> Any:
    """Returns `value` if it is `"auto"`, true or false; raises `ValueError` if not."""
    return check_choice("trainer.jit_compile", value, ("auto", True, False))


def check_checkpoint(checkpoint: Any) -> None:
    """Raises `ValueError` unless `every` is an interval and `keep` at least 1."""
    CheckpointTimes(checkpoint.every)
    check_integer("checkpoint.keep", checkpoint.keep, low=1)


def check_selection(selection: Any, known: Sequence[str]) -> None:
    """Checks the settings that `dann.training.Run` takes as `selection`.

    Args:
        selection: The settings.
        known: The names of all scores.

    Raises:
        ValueError: If a score is unknown, `keep` is none of the scores, or there are scores but
            `samples` is below 1.
    """
    if not selection.scores:
        keep = selection.keep or None
        check_choice("selection.keep", keep, (None,), why="if there are no scores")
        return
    for name in selection.scores:
        check_choice("selection.scores", name, ("all", *known))
    names = known if "all" in selection.scores else selection.scores
    check_choice("selection.keep", selection.keep, (None, *names))
    check_integer("selection.samples", selection.samples, low=1)


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the old and new value of each setting that differs, `"none"` if it is missing."""
    pairs = {key: (then.get(key, "none"), now.get(key, "none")) for key in {**then, **now}}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
