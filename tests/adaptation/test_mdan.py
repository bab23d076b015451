"""MDAN's loss and gradients, against NumPy on a linear network."""

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
    """Returns the loss of a discriminator from its logits."""
    losses = binary_losses(source, smoothing), binary_losses(target, 1 - smoothing)
    return sum(map(np.mean, losses)) / 2


def source_losses(a, b, w, *, smoothing=0.0):
    """Returns `E_i` and `D_i` of both sources."""
    source, target = SOURCE @ a, TARGET @ a @ w
    label, domain = [], []
    for index in range(2):
        source_features = source[index == DOMAINS]
        label.append(cross_entropy(source_features @ b, LABELS[index == DOMAINS]))
        domain.append(domain_loss((source_features @ w)[:, index], target[:, index], smoothing))
    return np.array(label), np.array(domain)


def compute_expected(weights, weighting, smoothing=0.0):
    """Returns the weighted losses and their gradients by central differences."""
    label, domain = source_losses(*weights, smoothing=smoothing)
    source_weights = softmax(GAMMA * (label - domain))
    if weighting == "hard":
        source_weights = np.eye(2)[np.argmax(label - domain)]

    def objective(a, b, w, sign):
        label, domain = source_losses(a, b, w, smoothing=smoothing)
        return source_weights @ (label + sign * domain)

    reversed_slopes = central_differences(lambda *ws: objective(*ws, -STRENGTH), weights)
    slopes = central_differences(lambda *ws: objective(*ws, 1.0), weights)
    return source_weights @ label, source_weights @ domain, [reversed_slopes[0], *slopes[1:]]


@pytest.mark.parametrize(("weighting", "smoothing"), [("soft", 0.0), ("hard", 0.0), ("soft", 0.1)])
@pytest.mark.parametrize("mode", MODES)
def test_mdan_loss_and_gradients_match_the_formula(weighting, smoothing, mode):
    model = linear_mdan(weighting, domain_label_smoothing=smoothing)
    label, domain, gradients = compute_expected(read_weights(model), weighting, smoothing)
    check_step(model, mode, {"label/loss": label, "domain/loss": domain}, gradients, x=PAIRS)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_source_equals_dann(smoothing):
    model = linear_mdan(num_sources=1, domain_label_smoothing=smoothing)
    logs, slopes = step(model, "graph")
    dann_logs, dann_slopes = step(linear_dann(domain_label_smoothing=smoothing), "graph")
    assert logs == pytest.approx(dann_logs, rel=1e-5)
    assert_all_close(slopes, dann_slopes)


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_sample_weights_apply_to_label_loss(shape):
    """Expects `E_i = mean_{s in i} weight * CE`."""
    model = linear_mdan()
    a, b, w = read_weights(model)
    sample_weights = np.array([2.0, 0.0, 1.0, 0.5, 3.0])
    losses = -sample_weights * np.log(softmax(SOURCE @ a @ b)[np.arange(5), LABELS])
    label = np.array([losses[index == DOMAINS].mean() for index in range(2)])
    domain = source_losses(a, b, w)[1]
    source_weights = softmax(GAMMA * (label - domain))
    labels, weights = LABELS.reshape(shape), sample_weights.reshape(shape)
    logs, _ = step(model, "graph", PAIRS, labels, weights)
    assert logs["label/loss"] == pytest.approx(source_weights @ label, rel=1e-5)
    assert logs["domain/loss"] == pytest.approx(source_weights @ domain, rel=1e-5)


@pytest.mark.parametrize("weighting", ["soft", "hard"])
def test_absent_source_has_no_weight(weighting):
    model = linear_mdan(weighting)
    a, b, w = read_weights(model)
    w[:, 0] = 5 * w[:, 0]  # lowers the bound of the present source
    model.domain_head.set_weights([w])

    def objective(a, b, w, sign):
        domain = domain_loss(SOURCE @ a @ w[:, 0], TARGET @ a @ w[:, 0])
        return label_loss(a, b) + sign * domain

    gradients = central_differences(lambda *ws: objective(*ws, 1.0), [a, b, w])
    (gradients[0],) = central_differences(lambda a: objective(a, b, w, -STRENGTH), [a])
    logs, slopes = step(model, "graph", {**PAIR, "source_domain": np.zeros(5, int)})
    assert logs["label/loss"] == pytest.approx(label_loss(a, b), rel=1e-5)
    assert_all_close(slopes, gradients)


@torch_skips.unknown_domain_nan
def test_source_out_of_range_gives_nan():
    pairs = {**PAIR, "source_domain": np.array([0, 1, 2, 0, 1])}
    logs, _ = step(linear_mdan(), "graph", pairs)
    assert np.isnan(logs["label/loss"])
    assert np.isnan(logs["loss"])


def test_first_fit_counts_sources(reloaded):
    model = MDAN(linear(3, 4, "backbone"), num_classes=3)
    model.compile("sgd")
    model.fit({**PAIR, "source_domain": np.array([0, 1, 2, 0, 1])}, np.arange(5) % 3, verbose=0)
    assert model.num_sources == reloaded(model).num_sources == 3
    expected = MDAN(linear(3, 4, "backbone"), num_classes=3, num_sources=3)
    assert [w.shape for w in model.weights] == [w.shape for w in expected.weights]


def test_sources_after_the_first_step_are_refused():
    model = MDAN(linear(3, 4, "backbone"), num_classes=3)
    model.compile("sgd")
    model.fit(PAIR, np.arange(5) % 3, verbose=0)
    with pytest.raises(ValueError, match="`num_sources=3` in the constructor"):
        model.fit({**PAIR, "source_domain": np.array([0, 1, 2, 0, 1])}, np.arange(5) % 3)


def test_single_logit_head_is_copied_per_source():
    model = MDAN(linear(3, 4, "backbone"), num_classes=3, num_sources=3)
    assert model.domain_head.output_shape == (None, 3)
    first, second = (model.domain_head.get_layer(f"domain_head_{i}").weights[0] for i in (0, 1))
    assert np.abs(np.array(first) - np.array(second)).max() > 0
