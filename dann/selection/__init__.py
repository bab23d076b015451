"""Scores that rank checkpoints without labels of the target."""

from dann.selection.agreement import agreement
from dann.selection.bnm import bnm
from dann.selection.dev import dev
from dann.selection.entropy import entropy
from dann.selection.info_max import info_max
from dann.selection.mcc import mcc
from dann.selection.mix_val import mix_val
from dann.selection.outputs import Outputs, outputs_of
from dann.selection.regret import Evaluation, evaluate, regret
from dann.selection.reverse_validation import reverse_validation
from dann.selection.scores import SCORES, choose, compute_scores, score_checkpoints
from dann.selection.selection_scores import SelectionScores
from dann.selection.snd import snd
from dann.selection.source_accuracy import source_accuracy

__all__ = [
    "SCORES",
    "Evaluation",
    "Outputs",
    "SelectionScores",
    "agreement",
    "bnm",
    "choose",
    "compute_scores",
    "dev",
    "entropy",
    "evaluate",
    "info_max",
    "mcc",
    "mix_val",
    "outputs_of",
    "regret",
    "reverse_validation",
    "score_checkpoints",
    "snd",
    "source_accuracy",
]
