"""Class shares and accuracy of the target, on Gaussians whose posteriors are known."""

import keras
import numpy as np
import pytest
from scipy import special

import dann
from dann.networks import mlp_backbone
from dann.selection import adapt_shares, estimate_shares
from dann.selection.expected_accuracy import AccuracyEstimate, estimate_accuracy
from dann.selection.outputs import Outputs

SHARES = [0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9]


def draw(share, seed, count=2000, shift=0.0):
    """Returns labels, and inputs from N(-1, 1) for class 0 and N(1, 1) for class 1."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(count) >= share * count).astype(int)
    return rng.normal(2 * labels - 1 + shift)[:, None], labels


def compute_logits(inputs):
    """Returns logits whose posterior for equal shares, `sigmoid(2 x)`, is too confident by 3."""
    return 3 * np.hstack([-inputs, inputs])


def make_outputs(share, seed=0, shift=0.0):
    (x, y), (x_target, _) = draw(0.5, seed), draw(share, seed + 1, shift=shift)
    return Outputs(compute_logits(x_target), None, None, compute_logits(x), y, None)


def adapt(classifier):
    return adapt_shares(classifier, estimate_shares(make_outputs(0.5)))


def distill(classifier):
    dann.training.distill(classifier, np.zeros((2, 1)), np.eye(2), steps=1)


@pytest.mark.parametrize("share", SHARES)
def test_shares_of_gaussians_are_found(share):
    estimate = estimate_shares(make_outputs(share))
    for shares in (estimate.target, estimate.bbse):
        np.testing.assert_allclose(shares, [share, 1 - share], atol=0.05)
    assert estimate.source == pytest.approx([0.5, 0.5], abs=1e-3)
    assert estimate.temperature == pytest.approx(3, rel=0.1)  # the logits are 3 times too large
    assert estimate.rejection_reason is None
    assert abs(estimate.target[0] - share) < 4 * estimate.errors[0]
    assert f"class 0 {estimate.target[0]:.0%} ± {estimate.errors[0]:.0%}" in str(estimate)


def test_bbse_solves_the_confusion_matrix():
    source, target = 9 * np.eye(3)[[0, 0, 1, 1, 1, 2]], 9 * np.eye(3)[[0, 1, 2, 2]]
    labels = np.array([0, 0, 1, 1, 0, 2])
    estimate = estimate_shares(Outputs(target, source_logits=source, source_labels=labels))
    confusion = np.array([[2, 0, 0], [1, 2, 0], [0, 0, 1]]) / 6
    ratios = np.linalg.solve(confusion, [0.25, 0.25, 0.5])
    expected = ratios * [0.5, 1 / 3, 1 / 6]
    np.testing.assert_allclose(estimate.bbse, expected / expected.sum(), atol=1e-9)


def test_moved_inputs_and_weak_classifiers_are_named():
    classifier = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
    moved = estimate_shares(make_outputs(0.5, shift=3.0))
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 300, 2))
    weak = estimate_shares(Outputs(logits[0], None, None, logits[1], np.arange(300) % 2, None))
    small = estimate_shares(Outputs(9 * np.eye(2), None, None, 9 * np.eye(2), np.arange(2), None))
    flat = np.ones((2000, 2))
    equal = estimate_shares(make_outputs(0.5)._replace(target_logits=flat, source_logits=flat))
    assert np.isinf(equal.errors).all()
    cases = (moved, "inputs moved"), (weak, "too poorly"), (small, "too few"), (equal, "too poor")
    for estimate, words in cases:
        assert estimate.rejection_reason
        assert words in str(estimate)
        with pytest.raises(ValueError, match="not rejected.*`rejection_reason`"):
            adapt_shares(classifier, estimate)
    with pytest.raises(TypeError, match="estimate_shares.*Received: list"):
        adapt_shares(classifier, [0.5, 0.5])  # pyright: ignore[reportArgumentType]


CLASSIFIERS = {
    "method": (lambda: dann.SourceOnly(mlp_backbone((1,)), 2), "SourceOnly.*`model.classifier`"),
    "three classes": (lambda: dann.SourceOnly(mlp_backbone((1,)), 3).classifier, r"\(None, 3\)"),
    "two outputs": (
        lambda: keras.Model(x := keras.Input((1,)), [keras.layers.Dense(2)(x) for _ in range(2)]),
        "one output.*2.*2",
    ),
}


@pytest.mark.parametrize("call", [adapt, distill])
@pytest.mark.parametrize("case", CLASSIFIERS)
def test_classifiers_that_do_not_match_are_refused(case, call):
    make_classifier, words = CLASSIFIERS[case]
    with pytest.raises((TypeError, ValueError), match=words):
        call(make_classifier())


def test_corrected_classifier_is_that_of_bayes(tmp_path):
    estimate = estimate_shares(make_outputs(0.9))
    inputs = keras.Input((1,))
    dense = keras.layers.Dense(2)
    classifier = keras.Model(inputs, dense(inputs))
    dense.set_weights([3 * np.array([[-1.0, 1.0]]), np.zeros(2)])
    model = adapt_shares(classifier, estimate)
    x = np.linspace(-2, 2, 9, dtype="float32")[:, None]
    logits = special.log_softmax(keras.ops.convert_to_numpy(model(x)), axis=1)
    ratios = np.log(estimate.target / estimate.source)
    expected = compute_logits(x) / estimate.temperature + estimate.biases + ratios
    np.testing.assert_allclose(logits, special.log_softmax(expected, axis=1), atol=1e-5)
    # Bayes' rule with the true shares, up to the errors of the estimates.
    positive, negative = 0.1 * special.expit(2 * x), 0.9 * special.expit(-2 * x)
    np.testing.assert_allclose(np.exp(logits[:, 1:]), positive / (positive + negative), atol=0.1)
    again = adapt_shares(model, estimate)
    expected = model(x) / estimate.temperature + estimate.offsets
    np.testing.assert_allclose(again(x), expected, rtol=1e-5, atol=1e-5)
    model.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    dann.deployment.pack(model, tmp_path / "a.dann")
    outputs = dann.deployment.load(tmp_path / "a.dann").predict(x)
    np.testing.assert_allclose(outputs, model(x), rtol=1e-5, atol=1e-5)


def test_confidence_is_calibrated_and_corrected_for_its_error():
    rng = np.random.default_rng(0)
    labels = np.arange(20000) % 2
    inputs = rng.normal(2 * labels - 1)[:, None]
    logits = 3 * np.hstack([-inputs, inputs])  # three times the logits of the posterior
    estimate = estimate_accuracy(Outputs(logits, source_logits=logits, source_labels=labels))
    # The calibrated confidence is the accuracy of Bayes' rule, the normal CDF at 1.
    assert estimate.accuracy == pytest.approx(0.8413 - 0.166, abs=0.01)
    assert estimate.low == pytest.approx(0.8413 - 0.426, abs=0.01)
    assert estimate.high == pytest.approx(0.8413 - 0.039, abs=0.01)
    assert str(estimate).endswith(": unknown (90% interval 42% to 80%); label 50 examples")
    narrow = str(AccuracyEstimate(0.8, 0.75, 0.85))
    assert narrow == "Expected target accuracy: 80% (90% interval 75% to 85%)"
    # A classifier that always predicts equal probabilities.
    flat = estimate_accuracy(Outputs(0 * logits, source_logits=0 * logits, source_labels=labels))
    assert flat == pytest.approx((0.5 - 0.166, 0.5 - 0.426, 0.5 - 0.039))


@pytest.mark.parametrize(("classes", "scale"), [(10, 0), (30, 0), (30, 99)])
def test_accuracy_outside_of_the_calibration_has_no_interval(classes, scale):
    labels = np.arange(300) % classes
    logits = scale * np.eye(classes)[labels]
    estimate = estimate_accuracy(Outputs(logits, source_logits=logits, source_labels=labels))
    assert estimate == pytest.approx((0.834 if scale else 0, 0, 1), abs=1e-3)
    assert "unknown (90% interval 0% to 100%)" in str(estimate)
