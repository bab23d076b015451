"""Strengths and learning rates as serializable functions of the training step."""

from dann.schedules.learning_rates import GaninDecay as GaninDecay
from dann.schedules.strengths import Constant as Constant
from dann.schedules.strengths import GaninSchedule as GaninSchedule
from dann.schedules.strengths import StrengthSchedule as StrengthSchedule
from dann.schedules.strengths import WarmStart as WarmStart
