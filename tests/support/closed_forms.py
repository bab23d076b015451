"""Losses in NumPy, and their gradients by finite differences."""

import numpy as np
from support.arrays import STRENGTH


def sign(values):
    """Returns the sign, which is +1 at 0."""
    return np.where(values >= 0, 1.0, -1.0)


def softmax(logits):
    """Returns the softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def jacobian_by_differences(function, point, width=1e-5):
    """Returns the Jacobian of a function of a vector, by central differences in float64."""
    moves = width * np.eye(len(point))
    columns = [(function(point + move) - function(point - move)) / (2 * width) for move in moves]
    return np.stack(columns, axis=-1)


def central_differences(function, arrays, width=1e-6):
    """Returns the gradient of the scalar `function(*arrays)` with respect to each array."""
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            center = array[index]
            array[index] = center + width
            above = function(*arrays)
            array[index] = center - width
            gradient[index] = (above - function(*arrays)) / (2 * width)
            array[index] = center
        gradients.append(gradient)
    return gradients


def binary_losses(scores, labels):
    """Returns the binary cross-entropy of each logit, for labels in [0, 1]."""
    return np.logaddexp(0, scores) - labels * scores


def dann_by_hand(weights, source, labels, target, smoothing=0.0, weight=None, pool=None):
    """Returns DANN's losses and gradients for f = x A, c = f B, d = f w.

    dCE/dc = softmax - one-hot and dBCE/dd = sigmoid - domain. Rows are `(n, 3)` of each domain,
    `weight` has one value per source row, and `pool` is the matrix by which a domain head pools
    rows.
    """
    a, b, w = weights
    rows, n = np.concatenate([source, target]).astype("float64"), len(source)
    pool = np.eye(len(rows)) if pool is None else pool
    weight = np.ones(n) if weight is None else weight
    features = rows @ a
    probabilities = softmax(features[:n] @ b)
    label_loss = -np.mean(weight * np.log(probabilities[np.arange(n), labels]))
    label_slope = weight[:, None] * (probabilities - np.eye(3)[labels]) / n
    score = pool @ features @ w
    is_target = pool @ (np.arange(len(rows)) >= n)
    domain = (smoothing + (1 - 2 * smoothing) * is_target)[:, None]
    domain_slope = pool.T @ (1 / (1 + np.exp(-score)) - domain) / len(score)
    feature_slope = -STRENGTH * domain_slope @ w.T
    feature_slope[:n] += label_slope @ b.T
    terms = {"label/loss": label_loss, "domain/loss": np.mean(binary_losses(score, domain))}
    gradients = [rows.T @ feature_slope, features[:n].T @ label_slope, features.T @ domain_slope]
    return terms, gradients


def entropy(p):
    return -np.mean(np.sum(p * np.log(p), axis=1))


def divergence(p, q):
    return np.mean(np.sum(p * np.log(p / q), axis=1))


def certainty_weights(p):
    """Returns `1 + exp(-H)` of each row divided by the mean, where exp(-H) = prod p^p."""
    weights = 1 + np.prod(p**p, axis=1)
    return weights / weights.mean()


def confusion(p, weights):
    """Computes the loss of MCC, element by element."""
    classes = range(p.shape[1])
    c = [[np.sum(weights * p[:, j] * p[:, k]) for k in classes] for j in classes]
    between = sum(c[j][k] / sum(c[j]) for j in classes for k in classes if j != k)
    return between / len(classes)


def normalize_rows(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def vat_perturbation(inputs, direction, w, radius):
    """Computes VAT's r_adv from dKL(p || softmax(z))/dz = softmax(z) - p with z = (x + r) W."""
    probe = 0.01 * radius * normalize_rows(direction)
    slope = (softmax((inputs + probe) @ w) - softmax(inputs @ w)) @ w.T
    return radius * normalize_rows(slope)


def ascend_loss(loss, weights, radius):
    """Returns the weights after a step of length `radius` up the gradient of the loss."""
    slopes = central_differences(loss, weights)
    length = np.sqrt(sum((slope**2).sum() for slope in slopes))
    return [w + radius * slope / length for w, slope in zip(weights, slopes, strict=True)]
