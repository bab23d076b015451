"""MDAN's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support import torch_skips
from support.arrays import assert_all_close
from support.closed_forms import central_differences, cross_entropy, softmax
from support.formulas import binary_losses, linear_dann, linear_model
from support.networks import linear, read_weights
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.training_step import MODES, check_step, label_loss, step

from dann.adaptation import MDAN

DOMAINS = np.array([0, 1, 1, 0, 1])
PAIRS = {**PAIR, "source_domain": DOMAINS}
GAMMA = 2.0


def linear_mdan(weighting="soft", num_sources=2, **kwargs):
    """d = f W."""
    settings = {"num_sources": num_sources, "weighting": weighting, "gamma": GAMMA, **kwargs}
    return linear_model(MDAN, domain_head=linear(4, num_sources, "domain_head"), **settings)


def domain_loss(source, target, smoothing=0.0):
    """The loss of a discriminator, from its logits."""
    losses = binary_losses(source, smoothing), binary_losses(target, 1 - smoothing)
    return sum(map(np.mean, losses)) / 2


def errors(a, b, w, *, smoothing=0.0):
    """`E_i` and `D_i` of both sources."""
    source, target = SOURCE @ a, TARGET @ a @ w
    label, domain = [], []
    for index in range(2):
        its = source[index == DOMAINS]
        label.append(cross_entropy(its @ b, LABELS[index == DOMAINS]))
        domain.append(domain_loss((its @ w)[:, index], target[:, index], smoothing))
    return np.array(label), np.array(domain)


def expected(weights, weighting, smoothing=0.0):
    """The weighted losses, and the gradients by central differences of them."""
    label, domain = errors(*weights, smoothing=smoothing)
    chosen = softmax(GAMMA * (label - domain))
    if weighting == "hard":
        chosen = np.eye(2)[np.argmax(label - domain)]

    def objective(a, b, w, sign):
        label, domain = errors(a, b, w, smoothing=smoothing)
        return chosen @ (label + sign * domain)

    reversed_slopes = central_differences(lambda *ws: objective(*ws, -STRENGTH), weights)
    slopes = central_differences(lambda *ws: objective(*ws, 1.0), weights)
    return chosen @ label, chosen @ domain, [reversed_slopes[0], *slopes[1:]]


@pytest.mark.parametrize(("weighting", "smoothing"), [("soft", 0.0), ("hard", 0.0), ("soft", 0.1)])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(weighting, smoothing, mode):
    model = linear_mdan(weighting, domain_label_smoothing=smoothing)
    label, domain, gradients = expected(read_weights(model), weighting, smoothing)
    check_step(model, mode, {"label/loss": label, "domain/loss": domain}, gradients, x=PAIRS)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_with_one_source_it_is_dann(smoothing):
    model = linear_mdan(num_sources=1, domain_label_smoothing=smoothing)
    ours, slopes = step(model, "graph")
    theirs, expected = step(linear_dann(domain_label_smoothing=smoothing), "graph")
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert_all_close(slopes, expected)


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_sample_weights_multiply_the_label_loss_alone(shape):
    """As an average of each source: `E_i = mean_{s in i} weight * CE`."""
    model = linear_mdan()
    a, b, w = read_weights(model)
    of_examples = np.array([2.0, 0.0, 1.0, 0.5, 3.0])
    losses = -of_examples * np.log(softmax(SOURCE @ a @ b)[np.arange(5), LABELS])
    label = np.array([losses[index == DOMAINS].mean() for index in range(2)])
    domain = errors(a, b, w)[1]
    chosen = softmax(GAMMA * (label - domain))
    labels, weights = LABELS.reshape(shape), of_examples.reshape(shape)
    logs, _ = step(model, "graph", PAIRS, labels, weights)
    assert logs["label/loss"] == pytest.approx(chosen @ label, rel=1e-5)
    assert logs["domain/loss"] == pytest.approx(chosen @ domain, rel=1e-5)


@pytest.mark.parametrize("weighting", ["soft", "hard"])
def test_a_source_that_a_batch_lacks_has_no_weight(weighting):
    model = linear_mdan(weighting)
    a, b, w = read_weights(model)
    w[:, 0] = 5 * w[:, 0]  # the bound of the source that is there becomes the lower one
    model.domain_head.set_weights([w])

    def objective(a, b, w, sign):
        domain = domain_loss(SOURCE @ a @ w[:, 0], TARGET @ a @ w[:, 0])
        return label_loss(a, b) + sign * domain

    gradients = central_differences(lambda *ws: objective(*ws, 1.0), [a, b, w])
    (gradients[0],) = central_differences(lambda a: objective(a, b, w, -STRENGTH), [a])
    logs, slopes = step(model, "graph", {**PAIR, "source_domain": np.zeros(5, int)})
    assert logs["label/loss"] == pytest.approx(label_loss(a, b), rel=1e-5)
    assert_all_close(slopes, gradients)


@torch_skips.nan_of_unknown_domains
def test_a_number_out_of_range_makes_the_loss_nan():
    pairs = {**PAIR, "source_domain": np.array([0, 1, 2, 0, 1])}
    logs, _ = step(linear_mdan(), "graph", pairs)
    assert np.isnan(logs["label/loss"])
    assert np.isnan(logs["loss"])


def test_domain_numbers_may_be_a_column_and_losses_may_come_by_example():
    model = linear_mdan()
    label, domain, gradients = expected(read_weights(model), "soft")
    terms = {"label/loss": label, "domain/loss": domain}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    column = {**PAIR, "source_domain": DOMAINS[:, None]}
    check_step(model, "graph", terms, gradients, x=column, loss=loss)


def test_a_head_with_one_logit_is_copied_with_other_weights():
    model = MDAN(linear(3, 4, "backbone"), num_classes=3, num_sources=3)
    assert model.domain_head.output_shape == (None, 3)
    first, second = (model.domain_head.get_layer(f"domain_head_{i}").weights[0] for i in (0, 1))
    assert np.abs(np.array(first) - np.array(second)).max() > 0
