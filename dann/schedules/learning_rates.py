"""Learning rates as serializable functions of the training step."""

from typing import Any

import keras
from keras import ops

from dann.checks import check_number


@keras.saving.register_keras_serializable("dann")
class GaninDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Schedule of the learning rate in the DANN paper, which accompanies `GaninSchedule`.

    `learning_rate = initial_learning_rate / (1 + alpha * step / total_steps) ** beta`

    With `total_steps=10_000`, the decay factor is `(1 + 0.001 * step) ** -0.75`, which CDAN and the
    Transfer-Learning-Library use for runs of any length.

    Args:
        initial_learning_rate: Learning rate at step 0, above 0. Defaults to `0.01`.
        total_steps: Length of the run in training steps, above 0. Defaults to `10000`.
        alpha: Strength of the decay, at least 0. Defaults to `10.0`.
        beta: Exponent, at least 0. Defaults to `0.75`.

    Example:

    >>> from dann.schedules import GaninDecay
    >>> round(float(GaninDecay(0.01, total_steps=1000)(1000)), 6)
    0.001656

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.2.2.
    """

    def __init__(
        self,
        initial_learning_rate: float = 0.01,
        total_steps: int = 10_000,
        alpha: float = 10.0,
        beta: float = 0.75,
    ):
        self.initial_learning_rate = check_number(
            "initial_learning_rate", initial_learning_rate, low=0, exclude_low=True
        )
        self.total_steps = check_number("total_steps", total_steps, low=0, exclude_low=True)
        self.alpha = check_number("alpha", alpha, low=0)
        self.beta = check_number("beta", beta, low=0)

    def __call__(self, step: Any) -> Any:
        progress = ops.cast(step, "float32") / self.total_steps
        return self.initial_learning_rate * (1.0 + self.alpha * progress) ** -self.beta

    def get_config(self) -> dict:
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "total_steps": self.total_steps,
            "alpha": self.alpha,
            "beta": self.beta,
        }


# Saved models refer to this class as `Scaled`.
@keras.saving.register_keras_serializable("dann", name="Scaled")
class ScaledSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Multiple of another learning rate schedule.

    `learning_rate = factor * schedule(step)`

    Args:
        schedule: Any Keras schedule of the learning rate.
        factor: Multiplier of the schedule, above 0.
    """

    def __init__(self, schedule: keras.optimizers.schedules.LearningRateSchedule, factor: float):
        if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            raise TypeError(f"Expected `schedule` to be a Keras schedule. Received: {schedule!r}")
        self.schedule = schedule
        self.factor = check_number("factor", factor, low=0, exclude_low=True)

    def __call__(self, step: Any) -> Any:
        return self.factor * self.schedule(step)

    def get_config(self) -> dict:
        schedule = keras.saving.serialize_keras_object(self.schedule)
        return {"schedule": schedule, "factor": self.factor}

    @classmethod
    def from_config(cls, config: dict) -> "ScaledSchedule":
        schedule = keras.saving.deserialize_keras_object(config["schedule"])
        return cls(schedule, config["factor"])
