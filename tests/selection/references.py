"""The formulas of the papers, written out for single numbers."""

import math

import numpy as np
from checkpoints import SOURCE, TARGET, compute_features, compute_logits
from scipy import optimize


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


def snd(turn, temperature=0.05):
    probabilities = target_probabilities(turn)
    total = 0.0
    for i, first in enumerate(probabilities):
        cosines = [
            sum(a * b for a, b in zip(first, second, strict=True))
            / (math.hypot(*first) * math.hypot(*second))
            for j, second in enumerate(probabilities)
            if j != i
        ]
        total += shannon(softmax(np.array(cosines) / temperature))
    return total / len(probabilities)


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


def _standardize(train, test):
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / deviation, (test - mean) / deviation


def dev(turn, seed=0, loss=lambda values, label: -math.log(softmax(values)[label])):
    order = np.random.default_rng(seed).permutation(len(SOURCE[1]))
    train, held_out = order[: len(order) // 2], order[len(order) // 2 :]
    source, target = compute_features(turn, SOURCE[0]), compute_features(turn, TARGET)
    train_inputs, test_inputs = _standardize(
        np.concatenate([source[train], target]), source[held_out]
    )
    signs = np.repeat([-1, 1], [len(train), len(target)])

    def objective(theta):  # the penalty is |w|^2 / 2, without the intercept
        margins = signs * (train_inputs @ theta[:2] + theta[2])
        return np.logaddexp(0, -margins).sum() + theta[:2] @ theta[:2] / 2

    theta = optimize.minimize(objective, np.zeros(3), method="BFGS").x
    weights = len(train) / len(target) * np.exp(test_inputs @ theta[:2] + theta[2])
    values = compute_logits(turn, SOURCE[0])
    losses = [
        weight * loss(values[i], SOURCE[1][i]) for weight, i in zip(weights, held_out, strict=True)
    ]
    mean_loss, mean_weight = sum(losses) / len(losses), sum(weights) / len(weights)
    joint = sum((a - mean_loss) * (w - mean_weight) for a, w in zip(losses, weights, strict=True))
    factor = -joint / sum((w - mean_weight) ** 2 for w in weights)
    return -(mean_loss + factor * mean_weight - factor)


def mix_val(turn, share=0.55, seed=0):
    order = list(np.random.default_rng(seed).permutation(len(TARGET)))
    classes = compute_logits(turn, TARGET).argmax(axis=1)
    right = {True: [], False: []}
    for place, i in enumerate(order):
        j = order[place - 1]
        mixed = compute_logits(turn, share * TARGET[i] + (1 - share) * TARGET[j]).argmax()
        right[classes[i] == classes[j]].append(mixed == classes[i])
    return (np.mean(right[True]) + np.mean(right[False])) / 2


def reverse_validation(turn):
    classes = compute_logits(turn, TARGET).argmax(axis=1)
    train_inputs, test_inputs = _standardize(
        compute_features(turn, TARGET), compute_features(turn, SOURCE[0])
    )

    def objective(theta):
        weights, intercepts = theta[:6].reshape(2, 3), theta[6:]
        values = train_inputs @ weights + intercepts
        losses = np.log(np.exp(values).sum(axis=1)) - values[np.arange(len(classes)), classes]
        return losses.sum() + (weights**2).sum() / 2

    theta = optimize.minimize(objective, np.zeros(9), method="BFGS").x
    predicted = (test_inputs @ theta[:6].reshape(2, 3) + theta[6:]).argmax(axis=1)
    return np.mean(predicted == SOURCE[1])
