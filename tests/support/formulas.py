"""Formulas in NumPy for linear networks that several methods share."""

import numpy as np
from support.closed_forms import central_differences, softmax
from support.networks import linear, linear_parts, read_weights, with_random_weights
from support.pair import STRENGTH
from support.training_step import check_step, label_loss

from dann.adaptation import DANN, AdversarialModel


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
    """Computes MCC's equations 2, 3, 5 and 6, element by element."""
    classes = range(p.shape[1])
    c = [[np.sum(weights * p[:, j] * p[:, k]) for k in classes] for j in classes]
    between = sum(c[j][k] / sum(c[j]) for j in classes for k in classes if j != k)
    return between / len(classes)


def normalize_rows(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def worst_perturbation(inputs, direction, w, radius):
    """Computes VAT's r_adv from dKL(p || softmax(z))/dz = softmax(z) - p with z = (x + r) W."""
    probe = 0.01 * radius * normalize_rows(direction)
    slope = (softmax((inputs + probe) @ w) - softmax(inputs @ w)) @ w.T
    return radius * normalize_rows(slope)


def ascend_loss(loss, weights, radius):
    """Returns the weights after a step of length `radius` up the gradient of the loss."""
    slopes = central_differences(loss, weights)
    length = np.sqrt(sum((slope**2).sum() for slope in slopes))
    return [w + radius * slope / length for w, slope in zip(weights, slopes, strict=True)]


def linear_model(method, **kwargs):
    """Builds a method for f = x A and c = f B without biases, with random weights."""
    arguments = {**linear_parts(), "strength": STRENGTH, **kwargs}
    return with_random_weights(method(**arguments))


def linear_dann(**kwargs):
    """Builds DANN with the domain head d = f w."""
    return linear_model(DANN, **{"domain_head": linear(4, 1, "domain_head"), **kwargs})


def regularized_model(regularizer, **kwargs):
    """Builds a network `x A B` with a regularizer and without an adversary."""
    return linear_model(AdversarialModel, strength=None, regularizers=[regularizer], **kwargs)


def check_regularizer(model, mode, loss, **tolerance):
    """Compares a step with the label loss plus the weighted `loss`, a function of A and B."""
    (regularizer,) = model.regularizers
    weights = read_weights(model)

    def total(a, b):
        return label_loss(a, b) + regularizer.weight * loss(a, b)

    terms = {f"{regularizer.name}/loss": loss(*weights)}
    gradients = central_differences(total, weights)
    check_step(model, mode, terms, gradients, total(*weights), **tolerance)
