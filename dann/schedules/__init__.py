"""Strengths and learning rates as serializable functions of the training step."""

from dann.schedules.learning_rates import GaninDecay, Scaled
from dann.schedules.strengths import (
    Constant,
    GaninSchedule,
    StrengthSchedule,
    WarmStart,
    as_schedule,
)
