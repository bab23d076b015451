"""DANN's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_step, step
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET

from dann.adaptation import DANN, SourceOnly


def test_the_strength_of_the_model_is_that_of_its_reversal():
    model = linear_dann(strength=0.5)
    model.compile(keras.optimizers.SGD(0.0))
    assert float(model.strength) == 0.5
    logs = [model.fit(PAIR, LABELS, verbose=0).history["strength"]]
    model.strength = 0.2
    logs.append(model.fit(PAIR, LABELS, verbose=0).history["strength"])
    assert logs == [[0.5], [pytest.approx(0.2)]]
    with pytest.raises(ValueError, match="at least 0.*Received: strength=-1"):
        model.strength = -1
    with pytest.raises(AttributeError):
        SourceOnly(**linear_parts()).strength = 1


def linear_dann(way="override", passes="joint", strength=STRENGTH, **kwargs):
    """f = x A, c = f B, d = f w, without biases."""
    head = linear(4, 1, "domain_head")
    arguments = {"domain_head": head, "strength": strength, "way": way, "passes": passes}
    return with_random_weights(DANN(**linear_parts(), **arguments, **kwargs))


def expected(weights, smoothing=0.0):
    """Loss and gradients by hand; dCE/dc = softmax - one-hot, dBCE/dd = sigmoid - domain."""
    a, b, w = weights
    inputs = np.concatenate([SOURCE, TARGET])
    features = inputs @ a
    logits = features[:5] @ b
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    label_loss = -np.log(softmax[np.arange(5), LABELS]).mean()
    label_slope = (softmax - np.eye(3)[LABELS]) / 5
    domain = np.repeat([[smoothing], [1.0 - smoothing]], 5, axis=0)
    score = features @ w
    sigmoid = 1 / (1 + np.exp(-score))
    domain_loss = -(domain * np.log(sigmoid) + (1 - domain) * np.log(1 - sigmoid)).mean()
    domain_slope = (sigmoid - domain) / 10
    feature_slope = -STRENGTH * domain_slope @ w.T
    feature_slope[:5] += label_slope @ b.T
    gradients = [inputs.T @ feature_slope, features[:5].T @ label_slope, features.T @ domain_slope]
    return label_loss, domain_loss, gradients


WAYS = ["override", "stop_gradient"]
if keras.backend.backend() == "tensorflow":
    WAYS.append("op_override")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("passes", ["joint", "separate"])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(way, passes, mode):
    model = linear_dann(way, passes)
    label_loss, domain_loss, gradients = expected(weights_of(model))
    terms = {"label/loss": label_loss, "domain/loss": domain_loss}
    a, _, w = weights_of(model)
    right = np.concatenate([SOURCE @ a @ w < 0, TARGET @ a @ w > 0])
    logs = check_step(model, mode, terms, gradients)
    assert logs["strength"] == pytest.approx(STRENGTH)
    assert logs["domain/accuracy"] == pytest.approx(np.mean(right))


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
@pytest.mark.parametrize("mode", MODES)
def test_smoothing_gives_a_share_of_each_domain_label_to_the_other(mode, smoothing):
    model = linear_dann(domain_label_smoothing=smoothing)
    label_loss, domain_loss, gradients = expected(weights_of(model), smoothing)
    terms = {"label/loss": label_loss, "domain/loss": domain_loss}
    logs = check_step(model, mode, terms, gradients)
    plain_logs, _ = step(linear_dann(), mode)
    assert logs["domain/accuracy"] == plain_logs["domain/accuracy"]


def test_strength_zero_trains_the_features_as_source_only_does():
    dann = linear_dann(strength=0.0)
    source_only = SourceOnly(
        keras.models.clone_model(dann.backbone),
        label_head=keras.models.clone_model(dann.label_head),
    )
    for mine, other in zip(source_only.trainable_weights, dann.trainable_weights, strict=False):
        mine.assign(np.array(other))
    for model in (dann, source_only):
        model.compile(keras.optimizers.SGD(0.1))
        model.fit(PAIR, LABELS, batch_size=5, epochs=3, shuffle=False, verbose=0)
    for mine, other in zip(source_only.trainable_weights, dann.trainable_weights, strict=False):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("passes", "mean"), [("joint", 0.95), ("separate", 1.9)])
def test_passes_decide_what_batch_normalization_sees(passes, mean):
    """Source all 0, target all 2: 95% of the way to mean 1 in one pass; to 0, then to 2 in two."""
    entry = keras.Input((1,))
    normalization = keras.layers.BatchNormalization(momentum=0.05, scale=False, center=False)
    backbone = keras.Model(entry, normalization(entry))
    model = DANN(backbone, num_classes=2, passes=passes)
    model({"source": np.zeros((4, 1)), "target": 2 * np.ones((4, 1))}, training=True)
    assert float(normalization.moving_mean[0]) == pytest.approx(mean, rel=1e-5)
