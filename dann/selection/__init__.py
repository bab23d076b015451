"""Scores that rank checkpoints without labels of the target."""

from dann.selection.bnm import bnm
from dann.selection.callback import SelectionScores
from dann.selection.checkpoints import score_checkpoints
from dann.selection.dev import dev
from dann.selection.entropy import entropy
from dann.selection.evaluate import Evaluation, evaluate
from dann.selection.info_max import info_max
from dann.selection.mcc import mcc
from dann.selection.mix_val import mix_val
from dann.selection.regret import regret
from dann.selection.reverse_validation import reverse_validation
from dann.selection.scores import SCORES, compute_scores
from dann.selection.snd import snd
from dann.selection.source_accuracy import source_accuracy

__all__ = [
    "SCORES",
    "Evaluation",
    "SelectionScores",
    "bnm",
    "compute_scores",
    "dev",
    "entropy",
    "evaluate",
    "info_max",
    "mcc",
    "mix_val",
    "regret",
    "reverse_validation",
    "score_checkpoints",
    "snd",
    "source_accuracy",
]
