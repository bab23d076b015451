"""Verdicts on models whose state is known, and the rules at their thresholds."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal
from support.shifted_classes import linear_backbone

import dann
from dann.diagnostics.check import check, measure
from dann.diagnostics.evidence import evidence
from dann.diagnostics.verdict import verdict
from dann.networks import label_head


def normal_domains(shift):
    """Two classes along the second feature; the domains differ by `shift` along the first."""
    rng = np.random.default_rng(0)
    labels = [np.arange(512) % 2, rng.permutation(512) % 2]
    centers = [np.stack([np.zeros(512), 4.0 * part - 2], 1) for part in labels]
    source, target = (rng.normal(size=(512, 2)) + center for center in centers)
    pair = {"source": source, "target": target + [shift, 0.0]}
    return {k: v.astype("float32") for k, v in pair.items()}, labels[0]


DATA = normal_domains(0.0)


def knows_classes(cls=dann.DANN, backbone=None, **kwargs):
    """A model whose features are its inputs and that separates the classes of `normal_domains`."""
    model = cls(backbone or linear_backbone(), label_head=label_head(2, 2, ()), **kwargs)
    model.compile("sgd")
    kernels = {model.backbone: np.eye(2), model.label_head.layers[-1]: [[0, 0], [-1, 1]]}
    for part, kernel in kernels.items():
        part.set_weights([np.array(kernel), np.zeros(2)][: len(part.weights)])
    return model


def frozen(part):
    model = knows_classes()
    getattr(model, part).trainable = False
    model.compile("sgd")
    return model


def with_value(part, value):
    model = knows_classes()
    weight = getattr(model, part).trainable_variables[0]
    weight.assign(np.full(weight.shape, value))
    return model


def constant_features(kernel, bias):
    """A model with the same features for every example."""
    backbone = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, activation="relu")])
    model = knows_classes(backbone=backbone)
    backbone.set_weights([np.float32(kernel) * np.eye(2), np.full(2, bias)])
    return model


def one_class():
    x, labels = DATA
    return x | {"target": np.abs(x["target"])}, labels


def shifted_labels():
    """The second class is 7 times as frequent as the first in the target."""
    x, labels = DATA
    second = np.flatnonzero(x["target"][:, 1] > 0)
    rows = np.concatenate([second, np.flatnonzero(x["target"][:, 1] <= 0)[: len(second) // 7]])
    return x | {"target": x["target"][rows]}, labels


KNOWN = {
    "aligned": (knows_classes, DATA),
    "partly aligned": (knows_classes, normal_domains(1.35)),  # Phi(1.35 / 2) is 75%
    "not aligned": (knows_classes, normal_domains(4.0)),
    "label shift": (knows_classes, shifted_labels()),
    "source only": (lambda: knows_classes(dann.SourceOnly), normal_domains(4.0)),
    "oracle": (lambda: knows_classes(dann.TargetOnly), DATA),
    "collapsed": (knows_classes, one_class()),
    "discriminator not learning": (lambda: frozen("domain_head"), DATA),
    "broken reversal": (lambda: knows_classes(strength=0.0), DATA),
    "backbone not learning": (lambda: frozen("backbone"), DATA),
    "backbone not learning, all units": (lambda: constant_features(1.0, -1e4), DATA),
    "backbone not learning, constant": (lambda: constant_features(0.0, 3.0), DATA),
    "diverged, features": (lambda: with_value("backbone", np.nan), DATA),
    "diverged, logits": (lambda: with_value("label_head", np.inf), DATA),
}


@pytest.mark.parametrize("state", KNOWN)
def test_known_state_is_named(state):
    build, data = KNOWN[state]
    result = check(build(), data, mode="eager").verdict
    assert result.name == state.partition(",")[0]
    explained = any("Different class proportions" in reason for reason in result.reasons)
    assert explained == (state == "label shift")
    assert result.headline.endswith(" is 38 points.") == explained
    assert result.reasons[0].startswith("Not finite: ") == (result.name == "diverged")


# `WDGRL` draws random points.
@pytest.mark.parametrize("method", [dann.WDGRL, pytest.param(dann.DANN, marks=pytest.mark.slow)])
def test_measuring_changes_nothing(method):
    model = method(linear_backbone(), num_classes=2, strength=0.7)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    model.fit(*DATA, batch_size=256, verbose=0)
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    before = [np.array(variable) for variable in variables]
    measure(model, ({name: part[:16] for name, part in DATA[0].items()}, DATA[1][:16]))
    assert_all_equal(before, variables)


ALIGNED = {
    "reversal/state": "working",
    "reversal/head_norm": 0.1,
    "domain/spread": 0.2,
    "domain/loss": 0.69,
    "probe/accuracy": 0.5,
    "probe/low": 0.46,
    "probe/high": 0.54,
    "probe/loss": 0.69,
    "label/loss": 0.1,
    "label/prior_entropy": 0.69,
    "label/largest_share": 0.5,
    "target/largest_share": 0.5,
    "target/share_distance": 0.1,
    "target/confident_share_distance": 0.21,
    "target/chance_share_distance": 0.07,
    "mmd/squared": 0.01,
    "mmd/null": 0.003,
    "mmd/matched": 0.01,
    "mmd/matched_null": 0.003,
    "game/step": 0.01,
    "game/growth": 1.01,
    "game/min_real_part": -0.1,
    "binary/one/pass_rate": 0.5,
}


def probe(low, high):
    return {"probe/low": low, "probe/high": high, "probe/accuracy": (low + high) / 2}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, "aligned"),
        ({"reversal/state": "not started"}, "aligned"),
        ({"features/spread": 0.0, "domain/spread": 0.0}, "backbone not learning"),
        ({"domain/spread": 9e-5}, "discriminator not learning"),
        ({"reversal/head_norm": 0.0}, "discriminator not learning"),
        ({"domain/spread": 0.0, "reversal/state": "not applied"}, "broken reversal"),
        ({"reversal/state": "not finite"}, "diverged"),
        ({"reversal/state": "not applied", "label/loss": float("inf")}, "diverged"),
        ({"jacobian/source/logits/top": np.array([1.0, np.nan])}, "diverged"),
        ({"sharpness/trace": float("inf")}, "diverged"),
        ({"layers/not_finite": "dense"}, "diverged"),
        ({"layers/dead_units": "14 of 16 in layer 'dense'"}, "aligned"),
        ({"game/growth": 1.11}, "unstable"),
        ({"game/growth": 1.09}, "aligned"),
        ({"reversal/state": "no gradient", "domain/loss": 3e-16}, "not aligned"),
        ({"reversal/state": "no gradient", "domain/loss": 0.5}, "discriminator not learning"),
        ({"reversal/head_norm": 0.0, "domain/loss": 3e-16}, "discriminator not learning"),
        ({"binary/one/pass_rate": 0.09}, "saturated binary layer"),
        ({"binary/one/pass_rate": 0.11}, "aligned"),
        ({"target/largest_share": 0.95}, "collapsed"),
        ({"target/largest_share": 0.95, "label/largest_share": 0.94}, "aligned"),
        ({"target/largest_share": 0.95, "reversal/state": "none"}, "source only"),
        ({"target/share_distance": 0.21, "target/chance_share_distance": 0.1}, "label shift"),
        ({"target/share_distance": 0.2, "target/chance_share_distance": 0.02}, "aligned"),
        ({"target/share_distance": 0.21, "target/chance_share_distance": 0.11}, "aligned"),
        ({"target/share_distance": 0.21, "domain/loss": 1.1}, "aligned"),
        ({"target/share_distance": 0.21, "mmd/squared": 0.06, "mmd/matched": 0.06}, "not aligned"),
        ({"target/share_distance": 0.5, "target/largest_share": 0.95}, "collapsed"),
        (probe(0.6, 0.66), "aligned"),
        (probe(0.6, 0.68), "partly aligned"),
        (probe(0.49, 0.68), "undetermined"),
        (probe(0.86, 0.9) | {"mmd/squared": 0.03}, "not aligned"),
        (probe(0.86, 0.9), "partly aligned"),  # a difference that is small compared to the spread
        (probe(0.86, 0.9) | {"reversal/state": "none"}, "source only"),
        (probe(0.4, 0.5) | {"reversal/state": "oracle"}, "oracle"),
        ({"domain/loss": 0.34}, "not aligned"),
        ({"label/loss": 0.63}, "labels not learned"),
        ({"label/loss": 0.62}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06}, "not aligned"),
        ({"mmd/squared": 0.06}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06, "mmd/null": 0.016}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06, "mmd/matched_null": 0.016}, "aligned"),
    ],
)
def test_rule_applies_at_its_threshold(change, name):
    assert verdict(ALIGNED | change).name == name
    labeled = verdict(ALIGNED | change | {"target/accuracy": 0.9})
    assert (labeled.name, "dann.selection" in labeled.advice) == (name, "partly" in name)


@pytest.mark.parametrize(
    ("change", "can_raise", "can_lower"),
    [
        ({}, True, False),
        ({"conflict/ratio": 0.05, "label/loss": 0.65}, False, True),
        ({"label/loss": 0.65, "reversal/strength": 0.0}, True, False),
        ({"label/loss": 0.65, "reversal/state": "none"}, False, False),
        ({"target/share_distance": 0.21}, False, True),
        ({"target/largest_share": 0.95}, False, True),
        ({"target/largest_share": 0.95, "domain/loss": 0.3}, True, False),
        ({"target/share_distance": 0.21, "target/confident_share_distance": 0.1}, True, False),
    ],
)
def test_advice_on_the_strength_has_one_direction(change, can_raise, can_lower):
    """The probe separates the domains, which alone suggests a higher strength."""
    measurements = ALIGNED | probe(0.86, 0.9) | {"mmd/squared": 0.03} | change
    advice = [row.advice for row in evidence(measurements)] + [verdict(measurements).advice]
    assert any("raise the strength" in text for text in advice) == can_raise
    assert any("Lower the strength" in text for text in advice) == can_lower
    contradicts = any("improve this value, but" in text for text in verdict(measurements).reasons)
    assert contradicts == ("conflict/ratio" in change)


def test_reasons_include_findings_that_do_not_decide():
    change = {"reversal/state": "wrong strength", "reversal/ratio": 0.2, "reversal/strength": 1.0}
    result = verdict(ALIGNED | change | {"domain/loss": 1.25, "label/loss": 0.65})
    assert result.name == "labels not learned"
    for words in (
        "`label/loss` is 0.65 (healthy: at most 0.621). ",
        "`reversal/ratio`",
        "`domain/loss`",
        "in inference mode",
    ):
        assert words in " ".join(result.reasons)
    assert max(map(len, str(result).splitlines())) <= 100
