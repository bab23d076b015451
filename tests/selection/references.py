"""The formulas of the papers, written out for single numbers."""

import math

import numpy as np
from checkpoints import SOURCE, TARGET, compute_logits


def softmax(row):
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def shannon(row):
    return -sum(p * math.log(p) for p in row if p > 0)


def target_probabilities(turn, temperature=1.0):
    return [softmax(row / temperature) for row in compute_logits(turn, TARGET)]


def source_accuracy(turn):
    pairs = zip(compute_logits(turn, SOURCE[0]), SOURCE[1], strict=True)
    return sum(max(row) == row[label] for row, label in pairs) / len(SOURCE[1])


def entropy(turn):
    probabilities = target_probabilities(turn)
    return -sum(map(shannon, probabilities)) / len(probabilities)


def info_max(turn):
    probabilities = target_probabilities(turn)
    mean = [sum(column) / len(probabilities) for column in zip(*probabilities, strict=True)]
    return shannon(mean) + entropy(turn)


def bnm(turn):
    probabilities = np.array(target_probabilities(turn))
    squares = np.linalg.eigvalsh(probabilities.T @ probabilities)  # of the singular values
    return np.sqrt(squares).sum() / math.sqrt(3 * len(probabilities))


def mcc(turn, temperature=2.5):
    probabilities = target_probabilities(turn, temperature)
    certainties = [1 + math.exp(-shannon(row)) for row in probabilities]
    weights = [len(probabilities) * certainty / sum(certainties) for certainty in certainties]
    confused = 0.0
    for a in range(3):
        row = [
            sum(w * p[a] * p[b] for w, p in zip(weights, probabilities, strict=True))
            for b in range(3)
        ]
        confused += (sum(row) - row[a]) / sum(row)
    return -confused / 3


def mix_val(turn, share=0.55, seed=0):
    order = list(np.random.default_rng(seed).permutation(len(TARGET)))
    classes = compute_logits(turn, TARGET).argmax(axis=1)
    right = {True: [], False: []}
    for place, i in enumerate(order):
        j = order[place - 1]
        mixed = compute_logits(turn, share * TARGET[i] + (1 - share) * TARGET[j]).argmax()
        right[classes[i] == classes[j]].append(mixed == classes[i])
    return (np.mean(right[True]) + np.mean(right[False])) / 2
