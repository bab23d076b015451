"""The formula of each score, named like the score, for a checkpoint with a turn."""

import numpy as np
from checkpoints import SOURCE, TARGET, compute_logits
from support import formulas
from support.closed_forms import softmax


def target_probabilities(turn, temperature=1.0):
    return softmax(compute_logits(turn, TARGET) / temperature)


def source_accuracy(turn):
    return np.mean(compute_logits(turn, SOURCE[0]).argmax(axis=1) == SOURCE[1])


def entropy(turn):
    return -formulas.entropy(target_probabilities(turn))


def info_max(turn):
    mean = target_probabilities(turn).mean(axis=0, keepdims=True)
    return formulas.entropy(mean) + entropy(turn)


def bnm(turn):
    probabilities = target_probabilities(turn)
    squares = np.linalg.eigvalsh(probabilities.T @ probabilities)  # of the singular values
    return np.sqrt(squares).sum() / np.sqrt(3 * len(probabilities))


def mcc(turn):
    probabilities = target_probabilities(turn, temperature=2.5)
    return -formulas.confusion(probabilities, formulas.certainty_weights(probabilities))


def mix_val(turn, share=0.55):
    order = np.random.default_rng(0).permutation(len(TARGET))
    classes = compute_logits(turn, TARGET).argmax(axis=1)
    first, second = order, np.roll(order, 1)
    mixtures = share * TARGET[first] + (1 - share) * TARGET[second]
    is_right = compute_logits(turn, mixtures).argmax(axis=1) == classes[first]
    is_same = classes[first] == classes[second]
    return (is_right[is_same].mean() + is_right[~is_same].mean()) / 2
