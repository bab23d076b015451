"""Strengths as serializable functions of the training step."""

import abc
from collections.abc import Callable
from typing import Any

import keras
from keras import ops
from keras.optimizers.schedules import LearningRateSchedule

from dann.checks import check_number, check_registered
from dann.config_mixin import ConfigMixin


class StrengthSchedule(ConfigMixin, abc.ABC):
    """Base class of strengths that depend on the number of completed training steps.

    Subclasses compute with `keras.ops`, because the step may be a tensor in a compiled graph, list
    the names of the constructor's arguments in `arguments`, and store the arguments in attributes
    of the same names.
    """

    @abc.abstractmethod
    def __call__(self, step: Any) -> Any:
        """Returns the strength at `step`, a float32 scalar of at least 0."""


@keras.saving.register_keras_serializable("dann")
class Constant(StrengthSchedule):
    """Schedule that has the same strength in every step.

    The methods and `GradientReversal` also accept a number, which means the same; a config that
    selects schedules by name needs the class.

    Args:
        value: The strength, at least 0. Defaults to `1.0`.

    Example:

    >>> from dann.schedules import Constant
    >>> float(Constant(0.5)(step=1000))
    0.5
    """

    arguments = ("value",)

    def __init__(self, value: float = 1.0):
        self.value = check_number("value", value, low=0)

    def __call__(self, step: Any) -> Any:
        return ops.convert_to_tensor(self.value, "float32")


@keras.saving.register_keras_serializable("dann")
class GaninSchedule(StrengthSchedule):
    """Schedule of the strength of the reversal, from 0 to `high` over a run (Ganin et al., 2016).

    `strength = high * (2 / (1 + exp(-gamma * p)) - 1)`, with `p = min(step / total_steps, 1)`.

    Args:
        total_steps: Length of the run in training steps, above 0.
        gamma: Steepness, above 0. Defaults to `10.0`, as in the paper.
        high: Strength that the curve approaches, at least 0. Defaults to `1.0`, as in the paper;
            0.1 is often safer, see the FAQ.

    Example:

    >>> from dann.schedules import GaninSchedule
    >>> schedule = GaninSchedule(total_steps=1000)
    >>> [round(float(schedule(step)), 3) for step in (0, 100, 500, 1000)]
    [0.0, 0.462, 0.987, 1.0]

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.2.2.
    """

    arguments = ("total_steps", "gamma", "high")

    def __init__(self, total_steps: int, gamma: float = 10.0, high: float = 1.0):
        self.total_steps = check_number("total_steps", total_steps, low=0, exclude_low=True)
        self.gamma = check_number("gamma", gamma, low=0, exclude_low=True)
        self.high = check_number("high", high, low=0)

    def __call__(self, step: Any) -> Any:
        progress = ops.minimum(ops.cast(step, "float32") / self.total_steps, 1.0)
        return self.high * _rise(self.gamma * progress)


@keras.saving.register_keras_serializable("dann")
class WarmStart(StrengthSchedule):
    """Strength that rises from `low` to `high` at a speed that does not depend on the run's length.

    `strength = low + (high - low) * (2 / (1 + exp(-alpha * step / steps)) - 1)`

    Args:
        low: Strength at step 0. Defaults to `0.0`.
        high: Strength that the curve approaches, at least `low`. Defaults to `1.0`.
        alpha: Steepness, above 0. Defaults to `1.0`.
        steps: Time scale in training steps, above 0. Defaults to `1000`, with which the strength
            covers 46% of the range by step 1,000 and 99% by step 5,000.

    Example:

    >>> from dann.schedules import WarmStart
    >>> schedule = WarmStart(high=0.1)
    >>> [round(float(schedule(step)), 4) for step in (0, 1000, 5000)]
    [0.0, 0.0462, 0.0987]

    Reference:
        - [Long et al., 2018](https://arxiv.org/abs/1705.10667), section 5.1, whose released code
          uses this formula.
    """

    arguments = ("low", "high", "alpha", "steps")

    def __init__(self, low: float = 0.0, high: float = 1.0, alpha: float = 1.0, steps: int = 1000):
        self.low = check_number("low", low, low=0)
        self.high = check_number("high", high, low=low)
        self.alpha = check_number("alpha", alpha, low=0, exclude_low=True)
        self.steps = check_number("steps", steps, low=0, exclude_low=True)

    def __call__(self, step: Any) -> Any:
        rise = _rise(self.alpha * ops.cast(step, "float32") / self.steps)
        return self.low + (self.high - self.low) * rise


def _rise(x: Any) -> Any:
    """Returns `2 / (1 + exp(-x)) - 1`, which is 0 at 0 and approaches 1."""
    return 2.0 * ops.sigmoid(x) - 1.0  # the sigmoid does not overflow where exp(-x) would


def as_schedule(strength: Any) -> Callable[[Any], Any] | None:
    """Returns a strength that is a function of the step, or `None` for a number.

    Args:
        strength: A number, a schedule, the config of a schedule, or a registered function.

    Raises:
        ValueError: If `strength` is a function that is not registered with Keras, so that a model
            with it could not be loaded.
    """
    if isinstance(strength, dict):
        strength = keras.saving.deserialize_keras_object(strength)
    if not callable(strength) or isinstance(strength, type):
        return None
    if not isinstance(strength, StrengthSchedule | LearningRateSchedule):
        check_registered("strength function", strength)
    return strength
