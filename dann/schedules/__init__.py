"""Strengths and learning rates as serializable functions of the training step."""

from dann.schedules.learning_rates import GaninDecay, ScaledSchedule
from dann.schedules.strengths import (
    Constant,
    GaninSchedule,
    StrengthSchedule,
    WarmStart,
    as_schedule,
)
