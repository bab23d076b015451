"""Calls that diagnostics refuse, with the words that a user needs."""

import numpy as np
import pytest
from linear_models import DATA
from support.networks import linear_parts, network

import dann
from dann import diagnostics
from dann.diagnostics import Diagnostics, certify, check, leakage
from dann.layers import GradientReversal

X, LABELS = DATA
REVERSAL = GradientReversal(0.5)


def method(cls=dann.DANN, **kwargs):
    model = cls(network((3, 2), "backbone"), num_classes=2, **kwargs)
    model.compile("sgd")
    return model


def train_with(names):
    model = method(dann.SourceOnly)
    try:
        model.fit(X, LABELS, callbacks=[Diagnostics(names)], verbose=0)
    finally:
        assert int(model.optimizer.iterations) == 0  # refused before the first step


SITE = np.arange(40) % 3
PATIENTS = np.arange(40) // 5
ONE_EACH = {name: part[:1] for name, part in X.items()}, LABELS[:1]
SOFT_LABELS = X, 2.0 * np.eye(2)[LABELS]
OF_40 = "for each of the 40"


def leak(values, **options):
    return lambda: leakage(np.zeros((40, 2)), None, {"site": values}, **options)


def accuracy(labels, predicted, nuisance):
    return lambda: diagnostics.accuracy_by_nuisance(labels, predicted, nuisance)


def measure_with(diagnostic, *arguments, cls=dann.DANN, **kwargs):
    return lambda: diagnostic(method(cls, **kwargs), *arguments)


def without_reversal(diagnostic):
    return measure_with(diagnostic, DATA, cls=dann.SourceOnly)


REFUSALS = {
    "check no example": (lambda: check(network((3, 2)), np.zeros((0, 3))), "at least one example"),
    "certify pair": (lambda: certify(network((3, 2)), DATA), r"`certify\(model, inputs\)`"),
    "check layer": (lambda: check(method(), DATA, layer="x"), "No such layer: x"),
    "check not compiled": (lambda: check(dann.DANN(**linear_parts()), DATA), "Call `compile`"),
    "check one domain": (measure_with(check, X["source"]), "Expected both domains"),
    "conflict no reversal": (without_reversal(diagnostics.gradient_conflict), "no reversal"),
    "distance one example": (measure_with(diagnostics.feature_distance, ONE_EACH), "at least 2"),
    "labels numbers": (measure_with(diagnostics.label_loss_baselines, SOFT_LABELS), "one-hot"),
    "game no reversal": (without_reversal(diagnostics.minmax_spectrum), "a reversal.*SourceOnly"),
    "game radius": (measure_with(diagnostics.minmax_spectrum, DATA, task_radius=0.05), "=0.05"),
    "leakage few": (leak(np.where(np.arange(40) < 11, SITE, -1)), "than one.*: 11 of 'site'"),
    "leakage two groups per site": (
        leak(PATIENTS // 2, groups=PATIENTS),
        r"Cannot tell whether 'site'.*at least 3 groups.*too few groups of \[0, 1, 2, 3\]",
    ),
    "leakage ages of 8 patients": (
        leak(PATIENTS + 0.5, groups=PATIENTS),
        "Cannot tell whether 'site'.*12 if each group has a single number. Received: 8 groups",
    ),
    "leakage floats": (
        leak(np.where(SITE == 2, np.nan, SITE)),
        r"classes or numbers.*Received: \[0.0, 1.0\]. Pass `kinds=\{'site': 2\}`",
    ),
    "leakage array": (
        lambda: leakage(np.zeros((40, 2)), None, SITE),
        r"leakage\(features, None, nuisances\).*Received: types ndarray, NoneType, ndarray",
    ),
    "leakage pair": (measure_with(leakage, DATA, {"site": SITE}), "types DANN, tuple"),
    "leakage texts": (lambda: leakage(SITE.astype(str), None, {"site": SITE}), "to be numbers"),
    "leakage dates": (leak(SITE.astype("datetime64[D]")), "'site' as a number, such as days"),
    "leakage lengths": (leak(SITE[:9]), f"'site' {OF_40} examples. Received: 9 values"),
    "accuracy kinds": (
        accuracy(SITE, SITE.astype(str), SITE),
        r"both strings or both numbers.*\[0\] and predictions such as \['0'\]",
    ),
    "accuracy logits": (accuracy(SITE, np.zeros((40, 2)), SITE), r"\(n,\).*shape \(40, 2\)"),
    "accuracy infinite": (accuracy(SITE, SITE, np.full(40, np.inf)), "finite .*`nuisance`.*: 40"),
    "accuracy short": (accuracy(SITE, SITE[:9], SITE), f"`predicted` {OF_40} labels. Received: 9"),
    "binary function": (lambda: diagnostics.straight_through_health(len, X), "model or layer"),
    "callback no data": (lambda: train_with(["discriminator_vs_probe"]), "Expected both domains"),
}


@pytest.mark.parametrize(("call", "words"), REFUSALS.values(), ids=REFUSALS)
def test_call_is_refused_with_the_needed_words(call, words):
    with pytest.raises((TypeError, ValueError), match=f"(?s){words}"):
        call()
