"""Discriminator, distance and baselines against NumPy and on normal distributions."""

import numpy as np
import pytest
from scipy import special
from scipy.spatial import distance
from support.networks import linear

import dann
from dann.diagnostics import discriminator_vs_probe, feature_distance, label_loss_baselines
from dann.diagnostics.feature_distance import estimate_with_null, kernel_matrix

RNG = np.random.default_rng(5)
SOURCE = RNG.normal(size=(60, 2))
TARGET = RNG.normal(size=(50, 2)) + [0.5, 0.0]
LABELS = RNG.integers(2, size=60)
DATA = {"source": SOURCE.astype("float32"), "target": TARGET.astype("float32")}, LABELS


def identity_dann(domain=(0.8, -0.3), classes=((1.0, -1.0), (0.5, 0.2))):
    """Features are the inputs; the discriminator and the classes are linear in them."""
    model = dann.DANN(linear(2, 2), label_head=linear(2, 2), domain_head=linear(2, 1))
    for weight, value in zip(model.trainable_weights, [np.eye(2), classes, domain], strict=True):
        weight.assign(np.reshape(value, weight.shape))
    return model


def test_live_discriminator_matches_numpy():
    measurements = discriminator_vs_probe(identity_dann(), DATA)
    logits = [x @ [0.8, -0.3] for x in (SOURCE, TARGET)]
    losses = -np.log(1 - special.expit(logits[0])).mean(), -np.log(special.expit(logits[1])).mean()
    assert measurements["domain/loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    accuracies = np.mean(logits[0] < 0), np.mean(logits[1] > 0)
    assert measurements["domain/accuracy"] == pytest.approx(np.mean(accuracies))
    assert measurements["domain/spread"] == pytest.approx(np.concatenate(logits).std(), rel=1e-5)
    error = 1 - measurements["probe/accuracy"]
    assert measurements["probe/a_distance"] == pytest.approx(max(2 * (1 - 2 * error), 0))


def test_target_of_one_class_matches_source_of_that_class():
    rng = np.random.default_rng(4)
    labels = np.arange(600) % 2
    source = rng.normal(scale=0.3, size=(600, 2)) + np.stack([2.0 * labels - 1, 0 * labels], 1)
    target = rng.normal(scale=0.3, size=(300, 2)) + [1.0, 0.0]
    data = {"source": source.astype("float32"), "target": target.astype("float32")}, labels
    model = identity_dann(classes=((-1.0, 1.0), (0.0, 0.0)))
    assert discriminator_vs_probe(model, data)["probe/accuracy"] > 0.7
    measurements = feature_distance(model, data)
    assert measurements["mmd/squared"] > 100 * abs(measurements["mmd/matched"])
    assert label_loss_baselines(model, data)["target/largest_share"] > 0.99


def squared_mmd(source, target, width):
    """The double sum of Gretton et al., 2012, equation 3."""

    def kernel(a, b):
        return np.exp(-(distance.cdist(a, b) ** 2) / (2 * width**2))

    within = [(kernel(x, x).sum() - len(x)) / (len(x) * (len(x) - 1)) for x in (source, target)]
    return sum(within) - 2 * kernel(source, target).mean()


def test_discrepancy_is_the_double_sum_at_the_median_distance():
    measurements = feature_distance(identity_dann(), DATA)
    width = np.median(distance.pdist(np.concatenate([SOURCE, TARGET])))
    assert measurements["mmd/bandwidth"] == pytest.approx(width, rel=1e-5)
    squared = squared_mmd(SOURCE, TARGET, width)
    assert measurements["mmd/squared"] == pytest.approx(squared, rel=1e-4)


def test_null_is_the_95_percent_quantile_of_permutations():
    gram, width = kernel_matrix(SOURCE, TARGET)
    squared, null = estimate_with_null(gram, 60, seed=3)
    rows, rng = np.concatenate([SOURCE, TARGET]), np.random.default_rng(3)
    masks = [rng.permutation(np.arange(110) < 60) for _ in range(200)]
    permuted = [squared_mmd(rows[mask], rows[~mask], width) for mask in masks]
    assert squared == pytest.approx(squared_mmd(SOURCE, TARGET, width))
    assert null == pytest.approx(np.quantile(permuted, 0.95))


def test_label_loss_baselines_match_numpy():
    measurements = label_loss_baselines(identity_dann(), DATA)
    classes = np.array([[1.0, -1.0], [0.5, 0.2]])
    source, target = special.softmax(SOURCE @ classes, 1), special.softmax(TARGET @ classes, 1)
    shares = np.bincount(LABELS) / 60
    predicted = np.bincount(target.argmax(1), minlength=2) / 50
    confident = target[target.max(1).argsort()[12:]]  # 12 of 50 are the least confident quarter
    deviation = np.sqrt(shares.prod() * (1 / 60 + 1 / 50))
    expected = {
        "label/loss": -np.log(source[np.arange(60), LABELS]).mean(),
        "label/accuracy": np.mean(source.argmax(1) == LABELS),
        "label/prior_entropy": -np.sum(shares * np.log(shares)),
        "label/largest_share": shares.max(),
        "target/largest_share": predicted.max(),
        "target/share_distance": abs(predicted[0] - shares[0]),
        "target/confident_share_distance": abs(np.mean(confident.argmax(1) == 0) - shares[0]),
        "target/chance_share_distance": np.sqrt(2 / np.pi) * deviation,
    }
    assert measurements == pytest.approx(expected, rel=1e-5)
    for labels in (np.eye(2, dtype="float32")[LABELS], LABELS[:, None]):
        assert label_loss_baselines(identity_dann(), (DATA[0], labels)) == measurements
