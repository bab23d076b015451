"""Who is winning, against NumPy and against what is known of normal distributions."""

import keras
import numpy as np
import pytest
from scipy import special
from scipy.spatial import distance
from support.networks import linear

import dann
from dann.diagnostics import (
    discriminator_vs_probe,
    feature_distance,
    measure,
)
from dann.diagnostics import label_loss_baselines as baselines
from dann.diagnostics.feature_distance import kernel_matrix, squared_mmd, with_null

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
    error = 1 - found["probe/accuracy"]
    assert found["probe/a_distance"] == pytest.approx(max(2 * (1 - 2 * error), 0))


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
    broken = np.where(np.arange(60)[:, None] == 7, 1e38, SOURCE).astype("float32")
    data, model = ({"source": broken, "target": DATA[0]["target"]}, LABELS), identity_dann()
    model.backbone.set_weights([10 * np.eye(2)])
    found, _ = measure(model, data, ["discriminator_vs_probe", "feature_distance"])
    for name in ("probe/accuracy", "probe/loss", "probe/low", "mmd/squared", "mmd/null"):
        assert np.isnan(found[name]), name


def test_a_target_of_one_class_matches_the_source_drawn_in_the_same_class_shares():
    rng = np.random.default_rng(4)
    labels = np.arange(600) % 2
    source = rng.normal(scale=0.3, size=(600, 2)) + np.stack([2.0 * labels - 1, 0 * labels], 1)
    target = rng.normal(scale=0.3, size=(300, 2)) + [1.0, 0.0]
    pair = {"source": source.astype("float32"), "target": target.astype("float32")}
    model = identity_dann(classes=((-1.0, 1.0), (0.0, 0.0)))
    found = discriminator_vs_probe(model, (pair, labels))
    assert found["probe/accuracy"] > 0.7
    found = feature_distance(model, (pair, labels))
    assert found["mmd/squared"] > 100 * abs(found["mmd/matched"])
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


def test_the_null_is_the_95_percent_quantile_for_domains_that_are_dealt_at_random():
    gram, width = kernel_matrix(SOURCE, TARGET)
    squared, null = with_null(gram, 60, seed=3)
    both, rng = np.concatenate([SOURCE, TARGET]), np.random.default_rng(3)
    dealt = [rng.permutation(np.arange(110) < 60) for _ in range(200)]
    others = [squared_mmd(both[one], both[~one], width) for one in dealt]
    assert squared == pytest.approx(squared_mmd(SOURCE, TARGET, width))
    assert null == pytest.approx(np.quantile(others, 0.95))


def test_one_distribution_stays_below_the_null_quantile_19_times_of_20():
    rng = np.random.default_rng(6)
    below = 0
    for _ in range(100):
        source, target = rng.normal(size=(2, 20, 2))
        squared, null = with_null(kernel_matrix(source, target)[0], 20, seed=0)
        below += squared <= null
    assert below / 100 == pytest.approx(0.95, abs=0.055)  # 2.5 standard errors


def test_label_loss_baselines_are_those_of_numpy():
    found = baselines(identity_dann(), DATA)
    classes = np.array([[1.0, -1.0], [0.5, 0.2]])
    own, others = special.softmax(SOURCE @ classes, 1), special.softmax(TARGET @ classes, 1)
    shares = np.bincount(LABELS) / 60
    got = np.bincount(others.argmax(1), minlength=2) / 50
    surely = np.mean(others[others.max(1).argsort()[12:]].argmax(1) == 0)  # 12 of 50 are not
    deviation = np.sqrt(shares.prod() * (1 / 60 + 1 / 50))
    expected = {
        "label/loss": -np.log(own[np.arange(60), LABELS]).mean(),
        "label/accuracy": np.mean(own.argmax(1) == LABELS),
        "label/prior_entropy": -np.sum(shares * np.log(shares)),
        "label/largest_share": shares.max(),
        "target/largest_share": got.max(),
        "target/share_distance": abs(got[0] - shares[0]),
        "target/confident_share_distance": abs(surely - shares[0]),
        "target/chance_share_distance": np.sqrt(2 / np.pi) * deviation,
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("call", "error"),
    [
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
