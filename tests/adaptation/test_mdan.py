"""MDAN's loss and gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from support.arrays import LABELS, PAIR, SOURCE, STRENGTH, TARGET, assert_all_close
from support.closed_forms import binary_losses, central_differences, softmax
from support.networks import linear, linear_dann, linear_model, read_weights
from support.training_step import MODES, check_step, step

from dann.adaptation import MDAN

DOMAINS = np.array([0, 1, 1, 0, 1])
GAMMA = 2.0


def linear_mdan(weighting="soft", num_sources=2, **kwargs):
    """d = f W."""
    settings = {"num_sources": num_sources, "weighting": weighting, "gamma": GAMMA, **kwargs}
    return linear_model(MDAN, domain_head=linear(4, num_sources, "domain_head"), **settings)


def source_losses(a, b, w, domains, sample_weights, smoothing):
    """Returns `E_i` and `D_i` of every source that the batch contains."""
    scores, target_scores = SOURCE @ a @ w, TARGET @ a @ w
    label_losses = -sample_weights * np.log(softmax(SOURCE @ a @ b)[np.arange(5), LABELS])
    source_losses = binary_losses(scores, smoothing)
    target_losses = binary_losses(target_scores, 1 - smoothing)
    label, domain = [], []
    for index in np.unique(domains):
        rows = index == domains
        label.append(label_losses[rows].mean())
        domain.append((source_losses[rows, index].mean() + target_losses[:, index].mean()) / 2)
    return np.array(label), np.array(domain)


def compute_expected(weights, weighting, *batch):
    """Returns the weighted losses and their gradients by central differences."""
    label, domain = source_losses(*weights, *batch)
    source_weights = softmax(GAMMA * (label - domain))
    if weighting == "hard":
        source_weights = np.eye(len(label))[np.argmax(label - domain)]

    def objective(a, b, w, sign):
        label, domain = source_losses(a, b, w, *batch)
        return source_weights @ (label + sign * domain)

    reversed_slopes = central_differences(lambda *ws: objective(*ws, -STRENGTH), weights)
    slopes = central_differences(lambda *ws: objective(*ws, 1.0), weights)
    terms = {"label/loss": source_weights @ label, "domain/loss": source_weights @ domain}
    return terms, [reversed_slopes[0], *slopes[1:]]


ONES, WEIGHTS = np.ones(5), np.array([2.0, 0.0, 1.0, 0.5, 3.0])
# Weighting, label smoothing, sources and sample weights of the batch.
CASES = {
    "soft": ("soft", 0.0, DOMAINS, ONES),
    "hard": ("hard", 0.0, DOMAINS, ONES),
    "smoothed": ("soft", 0.1, DOMAINS, ONES),
    "weighted": ("soft", 0.0, DOMAINS, WEIGHTS),
    "weighted columns": ("soft", 0.0, DOMAINS, WEIGHTS[:, None]),
    "soft, source 1 is absent": ("soft", 0.0, np.zeros(5, int), ONES),
    "hard, source 1 is absent": ("hard", 0.0, np.zeros(5, int), ONES),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_mdan_loss_and_gradients_match_the_formula(case, mode):
    weighting, smoothing, domains, sample_weights = CASES[case]
    model = linear_mdan(weighting, domain_label_smoothing=smoothing)
    if "absent" in case:  # keeps the bound of the first source below 0
        (w,) = model.domain_head.get_weights()
        model.domain_head.set_weights([w * [5, 1]])
    batch = domains, sample_weights.ravel(), smoothing
    expected = compute_expected(read_weights(model), weighting, *batch)
    x, y = {**PAIR, "source_domain": domains}, LABELS.reshape(sample_weights.shape)
    check_step(model, mode, *expected, x=x, y=y, sample_weight=sample_weights)


def test_one_source_equals_dann():
    logs, slopes = step(linear_mdan(num_sources=1, domain_label_smoothing=0.1), "graph")
    dann_logs, dann_slopes = step(linear_dann(domain_label_smoothing=0.1), "graph")
    assert logs == pytest.approx(dann_logs, rel=1e-5)
    assert_all_close(slopes, dann_slopes)


def test_source_out_of_range_gives_nan():
    logs, _ = step(linear_mdan(), "graph", {**PAIR, "source_domain": np.array([0, 1, 2, 0, 1])})
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
