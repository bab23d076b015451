"""Scores that rank checkpoints without labels of the target."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dann.registry import import_modules
from dann.selection.agreement import agreement as agreement
from dann.selection.regret import Evaluation, evaluate, regret
from dann.selection.scores import SCORES, choose, compute_scores, score_checkpoints
from dann.selection.selection_scores import SelectionScores

import_modules(__name__)
globals().update(SCORES)  # such as `dann.selection.info_max`

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., float]: ...
