"""Scores and rules that choose between models without labels of the target."""

from dann.data.probes import probe_domains
from dann.selection.agreement import agreement
from dann.selection.class_predictions import bnm, entropy, info_max, mcc, mix_val, source_accuracy
from dann.selection.expected_accuracy import AccuracyEstimate, expected_accuracy
from dann.selection.outputs import Outputs, compute_outputs
from dann.selection.recommend import Recommendation, recommend
from dann.selection.regret import regret
from dann.selection.scores import (
    SCORES,
    SelectionScores,
    compute_scores,
    resolve_scores,
    score_checkpoints,
)
from dann.selection.shares import ShareEstimate, adapt_shares, estimate_shares
