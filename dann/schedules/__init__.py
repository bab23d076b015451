"""Strengths and learning rates as serializable functions of the training step.

Keras is imported with the first of them that is asked for.
"""

from typing import TYPE_CHECKING

from dann.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dann.schedules.learning_rates import GaninDecay, Scaled
    from dann.schedules.strengths import (
        Constant,
        GaninSchedule,
        StrengthSchedule,
        WarmStart,
        as_schedule,
    )

__all__ = [
    "Constant",
    "GaninDecay",
    "GaninSchedule",
    "Scaled",
    "StrengthSchedule",
    "WarmStart",
    "as_schedule",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "learning_rates": ("GaninDecay", "Scaled"),
        "strengths": (
            "Constant",
            "GaninSchedule",
            "StrengthSchedule",
            "WarmStart",
            "as_schedule",
        ),
    },
)
