"""Scores and rules that choose between models without labels of the target."""

from dann.selection.agreement import agreement as agreement
from dann.selection.class_predictions import bnm as bnm
from dann.selection.class_predictions import entropy as entropy
from dann.selection.class_predictions import info_max as info_max
from dann.selection.class_predictions import mcc as mcc
from dann.selection.class_predictions import mix_val as mix_val
from dann.selection.class_predictions import source_accuracy as source_accuracy
from dann.selection.expected_accuracy import expected_accuracy as expected_accuracy
from dann.selection.outputs import compute_outputs as compute_outputs
from dann.selection.recommend import recommend as recommend
from dann.selection.scores import SelectionScores as SelectionScores
from dann.selection.scores import compute_scores as compute_scores
from dann.selection.shares import adapt_shares as adapt_shares
from dann.selection.shares import estimate_shares as estimate_shares
