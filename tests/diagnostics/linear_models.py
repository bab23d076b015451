"""Linear models of several methods, and their vector fields in NumPy."""

import keras
import numpy as np
from support.closed_forms import softmax
from support.networks import network

from dann.adaptation import CDAN, DANN

RNG = np.random.default_rng(3)
SOURCE = RNG.normal(size=(6, 3)).astype("float32")
TARGET = (RNG.normal(size=(6, 3)) + 0.5).astype("float32")
LABELS = np.array([0, 1, 1, 0, 1, 0])
DATA = ({"source": SOURCE, "target": TARGET}, LABELS)


def linear_dann(strength=0.7, optimizer=None, seed=4, cls=DANN):
    """Returns a `DANN` with logits `x W C` and discriminator `x W D`, and its weights.

    The discriminator of a `CDAN` gets the products of features and predictions.
    """
    shapes = [(3, 2), (2, 2), (4, 1) if cls is CDAN else (2, 1)]
    backbone, label_head, domain_head = map(network, shapes)
    model = cls(backbone, label_head=label_head, domain_head=domain_head, strength=strength)
    model.compile(optimizer or keras.optimizers.SGD(0.05))
    weights = [np.random.default_rng(seed).normal(size=shape) for shape in shapes]
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)
    return model, weights


def field_by_hand(flat, strength):
    """Returns the field of `linear_dann` from the chain rule, in double precision.

    The predictions of a `CDAN`, whose discriminator has twice as many weights, get no gradient.
    """
    w, c, d = flat[:6].reshape(3, 2), flat[6:10].reshape(2, 2), flat[10:].reshape(2, -1)
    x_s, x_t = SOURCE.astype(float), TARGET.astype(float)
    residual = (softmax(x_s @ w @ c) - np.eye(2)[LABELS]) / len(LABELS)
    x = np.concatenate([x_s, x_t])
    factors = softmax(x @ w @ c) if d.shape[1] > 1 else np.ones((len(x), 1))
    products = (x @ w)[:, :, None] * factors[:, None, :]
    domain = np.repeat([0.0, 1.0], [len(x_s), len(x_t)])
    logits = np.sum(products * d, axis=(1, 2))
    error = (1 / (1 + np.exp(-logits)) - domain)[:, None] / len(x)
    w_field = x_s.T @ residual @ c.T - strength * (x.T @ (error * (factors @ d.T)))
    d_field = np.sum(error[:, :, None] * products, axis=0)
    return np.concatenate([w_field.ravel(), ((x_s @ w).T @ residual).ravel(), d_field.ravel()])
