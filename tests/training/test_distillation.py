"""Distillation against closed forms."""

import keras
import numpy as np
import pytest
from scipy.special import softmax

from dann.training import distill


def make_classifier():
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.layers.Dense(2)(inputs))


def make_data():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(10, 3)).astype("float32")
    return inputs, softmax(rng.normal(size=(10, 2)), axis=1)


def test_first_step_is_adam_on_the_cross_entropy():
    classifier, (inputs, probabilities) = make_classifier(), make_data()
    kernel, bias = classifier.get_weights()
    distill(classifier, inputs, probabilities, steps=1)
    # d(cross-entropy) / d(logits) = softmax(logits) - p; the first step of Adam is the sign.
    residuals = softmax(inputs @ kernel + bias, axis=1) - probabilities
    gradients = inputs.T @ residuals / 10, residuals.mean(axis=0)
    for new, old, gradient in zip(classifier.get_weights(), (kernel, bias), gradients, strict=True):
        np.testing.assert_allclose(new - old, -0.001 * np.sign(gradient), rtol=1e-3)
    assert getattr(classifier, "optimizer", None) is None  # files do not contain one


def test_frozen_weights_stay_and_seed_sets_the_order():
    results = []
    for seed in (0, 0, 1):
        keras.utils.set_random_seed(0)
        classifier = make_classifier()
        hidden = keras.layers.BatchNormalization(trainable=False)
        model = keras.Model(classifier.input, classifier(hidden(classifier.input)))
        inputs, probabilities = (np.repeat(array, 10, axis=0) for array in make_data())
        distill(model, inputs, probabilities, steps=3, seed=seed)
        np.testing.assert_array_equal(hidden.get_weights(), [[1] * 3, [0] * 3, [0] * 3, [1] * 3])
        results.append(classifier.get_weights()[0])
    np.testing.assert_array_equal(results[0], results[1])
    assert np.abs(results[0] - results[2]).max() > 1e-6


PROBABILITIES = make_data()[1]
REFUSALS = {
    "other length": (PROBABILITIES[:9], 0, "arrays of one length"),
    "three classes": (np.full((10, 3), 1 / 3), 0, r"one output, logits `\(batch, 3\)`"),
    "classes": (np.arange(10) % 2, 0, r"`probabilities` of shape \(n, num_classes\)"),
    "logits": (np.log(PROBABILITIES), 0, "Apply a softmax"),
    "larger": (5 * PROBABILITIES, 0, "sums from 5 to 5"),
    "negative": (PROBABILITIES + [[-1, 1]], 0, "from -"),
    "NaN": (PROBABILITIES * np.nan, 0, "NaN or infinite"),
    "seed": (PROBABILITIES, -1, "`seed`"),
    "seed of a float": (PROBABILITIES, 1.5, "`seed`"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_probabilities_and_seeds_are_checked(case):
    probabilities, seed, words = REFUSALS[case]
    with pytest.raises((TypeError, ValueError), match=words):
        distill(make_classifier(), make_data()[0], probabilities, steps=1, seed=seed)
