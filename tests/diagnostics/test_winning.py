"""Who is winning, against NumPy and against what is known of normal distributions."""

import keras
import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial import distance
from support.networks import linear

import dann
from dann.diagnostics import (
    discriminator_vs_probe,
    feature_distance,
    measure,
    proxy_a_distance,
    squared_mmd,
)
from dann.diagnostics import label_loss_baselines as baselines
from dann.diagnostics.discriminator_vs_probe import fresh_probe
from dann.diagnostics.feature_distance import kernel_matrix, null_quantile

RNG = np.random.default_rng(5)
SOURCE = RNG.normal(size=(60, 2))
TARGET = RNG.normal(size=(50, 2)) + [0.5, 0.0]
LABELS = RNG.integers(2, size=60)
DATA = {"source": SOURCE.astype("float32"), "target": TARGET.astype("float32")}, LABELS


def identity_dann(domain=(0.8, -0.3), classes=((1.0, -1.0), (0.5, 0.2))):
    """Features are the inputs; the discriminator and the classes are linear in them."""
    model = dann.DANN(
        linear(2, 2, "backbone"),
        label_head=linear(2, 2, "label_head"),
        domain_head=linear(2, 1, "domain_head"),
    )
    for weight, value in zip(model.trainable_weights, [np.eye(2), classes, domain], strict=True):
        weight.assign(np.reshape(value, weight.shape))
    return model


def test_the_live_discriminator_is_measured_as_in_numpy():
    found = discriminator_vs_probe(identity_dann(), DATA)
    logits = [x @ [0.8, -0.3] for x in (SOURCE, TARGET)]
    losses = -np.log(1 - special.expit(logits[0])).mean(), -np.log(special.expit(logits[1])).mean()
    assert found["domain/loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    right = np.mean(logits[0] < 0), np.mean(logits[1] > 0)
    assert found["domain/accuracy"] == pytest.approx(np.mean(right))
    assert found["domain/spread"] == pytest.approx(np.concatenate(logits).std(), rel=1e-5)


def test_the_interval_of_the_accuracy_is_that_of_wilson():
    """Of 30 and 25 held-out examples, whose mean has the variance of one of 55."""
    found = discriminator_vs_probe(identity_dann(), DATA)
    n, z = 55, stats.norm.ppf(0.975)
    p = round(found["probe/accuracy"] * n) / n
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    ends = found["probe/low"], found["probe/high"]
    assert ends == pytest.approx((middle - half, middle + half))


def test_a_labelled_target_is_not_a_third_domain():
    """Its discriminator's logits are those of the target; MDAN names them by domain."""
    parts = {"backbone": linear(2, 2, "backbone"), "label_head": linear(2, 2, "label_head")}
    model = dann.MDAN(**parts, domain_head=linear(2, 1, "domain_head"))
    x, y = DATA
    found = discriminator_vs_probe(
        model, (x | {"target_labelled": x["target"][:3]}, np.append(y, [0, 1, 1]))
    )
    alone = discriminator_vs_probe(model, DATA)
    assert "domain/loss" in alone
    assert found == pytest.approx(alone)


def test_features_that_are_not_finite_give_nan():
    broken = np.where(np.arange(60)[:, None] == 7, np.inf, SOURCE).astype("float32")
    data = {"source": broken, "target": DATA[0]["target"]}, LABELS
    found, _ = measure(identity_dann(), data, ["winning", "distance"])
    for name in ("probe/accuracy", "probe/loss", "probe/low", "mmd/squared", "mmd/null"):
        assert np.isnan(found[name]), name


@pytest.mark.parametrize("probe", ["logistic", "mlp"])
def test_a_probe_is_as_right_as_two_normal_distributions_allow(probe):
    """At distance 2 the best classifier is right on the normal distribution at 1, 84.1%."""
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(2, 3000, 3))
    target[:, 0] += 2
    found = fresh_probe(source, target, probe)
    assert found[0] == pytest.approx(stats.norm.cdf(1), abs=0.02)
    expected = 2 * (1 - 2 * stats.norm.cdf(-1))
    assert proxy_a_distance(source, target, probe) == pytest.approx(expected, abs=0.08)


def test_a_difference_tiny_beside_the_spread_hardly_changes_the_loss():
    rng = np.random.default_rng(2)
    source, target = rng.normal(size=(2, 500, 2)) * [1.0, 1e-4]
    target[:, 1] += 1e-3
    assert fresh_probe(source, target)[1] > 0.68


def test_a_target_of_one_class_matches_the_source_drawn_in_the_same_class_shares():
    rng = np.random.default_rng(4)
    labels = np.arange(600) % 2
    source = rng.normal(scale=0.3, size=(600, 2)) + np.stack([2.0 * labels - 1, 0 * labels], 1)
    target = rng.normal(scale=0.3, size=(300, 2)) + [1.0, 0.0]
    pair = {"source": source.astype("float32"), "target": target.astype("float32")}
    model = identity_dann(classes=((-1.0, 1.0), (0.0, 0.0)))
    found = discriminator_vs_probe(model, (pair, labels))
    assert found["probe/accuracy"] > 0.7
    assert found["probe/matched_accuracy"] == pytest.approx(0.5, abs=0.1)
    assert found["probe/matched_loss"] > 0.65
    assert baselines(model, (pair, labels))["target/largest_share"] > 0.99


def test_the_discrepancy_is_that_of_the_double_sum_at_the_median_distance():
    found = feature_distance(identity_dann(), DATA)
    width = np.median(distance.pdist(np.concatenate([SOURCE, TARGET])))
    assert found["mmd/bandwidth"] == pytest.approx(width, rel=1e-5)

    def kernel(a, b):
        return np.exp(-(distance.cdist(a, b) ** 2) / (2 * width**2))

    within = [(kernel(x, x).sum() - len(x)) / (len(x) * (len(x) - 1)) for x in (SOURCE, TARGET)]
    expected = sum(within) - 2 * kernel(SOURCE, TARGET).mean()
    assert squared_mmd(SOURCE, TARGET, width) == pytest.approx(expected, rel=1e-9)
    assert found["mmd/squared"] == pytest.approx(expected, rel=1e-4)


def test_one_distribution_stays_below_the_null_quantile_19_times_of_20():
    rng = np.random.default_rng(6)
    below = 0
    for _ in range(100):
        source, target = rng.normal(size=(2, 20, 2))
        gram, sizes, width = kernel_matrix(source, target)
        below += squared_mmd(source, target, width) <= null_quantile(gram, sizes, seed=0)
    assert below / 100 == pytest.approx(0.95, abs=0.055)  # 2.5 standard errors


def test_label_loss_baselines_are_those_of_numpy():
    found = baselines(identity_dann(), DATA)
    classes = np.array([[1.0, -1.0], [0.5, 0.2]])
    own, others = special.softmax(SOURCE @ classes, 1), special.softmax(TARGET @ classes, 1)
    shares, mean = np.bincount(LABELS) / 60, others.mean(axis=0)
    got = np.bincount(others.argmax(1), minlength=2) / 50
    deviation = np.sqrt(shares.prod() * (1 / 60 + 1 / 50))
    expected = {
        "label/loss": -np.log(own[np.arange(60), LABELS]).mean(),
        "label/accuracy": np.mean(own.argmax(1) == LABELS),
        "label/prior_entropy": -np.sum(shares * np.log(shares)),
        "label/log_classes": np.log(2),
        "label/largest_share": shares.max(),
        "target/largest_share": got.max(),
        "target/share_distance": abs(got[0] - shares[0]),
        "target/share_chance": np.sqrt(2 / np.pi) * deviation,
        "target/mean_prediction": mean,
        "target/prediction_entropy": -np.sum(mean * np.log(mean)),
        "target/conditional_entropy": -np.mean(np.sum(others * np.log(others), axis=1)),
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: fresh_probe(SOURCE[:3], TARGET), ValueError),
        (lambda: fresh_probe(SOURCE, TARGET, "svm"), ValueError),
        (lambda: squared_mmd(SOURCE[:1], TARGET), ValueError),
        (lambda: squared_mmd(SOURCE, TARGET, 0), ValueError),
        (
            lambda: baselines(dann.MDD(linear(2, 2, "b"), label_head=linear(2, 1, "h")), DATA),
            ValueError,
        ),
        (lambda: baselines(identity_dann(), (DATA[0], 2 * np.eye(2)[LABELS])), ValueError),
        (lambda: baselines(identity_dann(), (DATA[0], np.ones((60, 2)))), ValueError),
        (lambda: baselines(identity_dann(), (DATA[0], LABELS + 1)), ValueError),
        (lambda: baselines(identity_dann(), (DATA[0], LABELS - 1)), ValueError),
        (lambda: discriminator_vs_probe(linear(2, 2, "plain"), DATA), TypeError),
    ],
)
def test_what_cannot_be_measured_is_refused(call, error):
    with pytest.raises(error):
        call()


def test_half_precision_is_measured_too():
    keras.config.set_dtype_policy("mixed_float16")
    found = discriminator_vs_probe(identity_dann(), DATA)
    logits = np.concatenate([x @ [0.8, -0.3] for x in (SOURCE, TARGET)])
    assert found["domain/spread"] == pytest.approx(logits.std(), rel=1e-2)
