"""Calls that diagnostics refuse, with the words that a user needs."""

import numpy as np
import pytest
from linear_models import DATA
from support.networks import linear_parts, network

import dann
from dann.diagnostics import (
    Diagnostics,
    accuracy_by_nuisance,
    certify,
    check,
    feature_distance,
    find_confounded_classes,
    gradient_conflict,
    label_loss_baselines,
    leakage,
    minmax_spectrum,
    straight_through_health,
)
from dann.layers import GradientReversal

X, LABELS = DATA
REVERSAL = GradientReversal(0.5)


def compiled(model):
    model.compile("sgd")
    return model


def method(cls=dann.DANN, **kwargs):
    return compiled(cls(network((3, 2), "backbone"), num_classes=2, **kwargs))


def train_with(*arguments, cls=dann.SourceOnly):
    model = method(cls)
    try:
        model.fit(X, LABELS, callbacks=[Diagnostics(*arguments)], verbose=0)
    finally:
        assert int(model.optimizer.iterations) == 0  # refused before the first step


SITE = np.arange(40) % 3
PATIENTS = np.arange(40) // 5


def leak(values, **options):
    return leakage(np.zeros((40, 2)), None, {"site": values}, **options)


REFUSALS = {
    "certify no example": (lambda: certify(REVERSAL, np.zeros((0, 3))), "at least one example"),
    "certify one domain": (lambda: certify(method(), X["source"]), "Expected one batch"),
    "certify pair": (
        lambda: certify(network((3, 2), "plain"), DATA),
        r"`certify\(model, inputs\)`",
    ),
    "check layer": (lambda: check(method(), DATA, layer="x"), "No such layer: x"),
    "check not compiled": (
        lambda: check(dann.DANN(**linear_parts()), DATA),
        "Call `compile` first",
    ),
    "check one domain": (lambda: check(method(), X["source"]), "Expected both domains"),
    "conflict no reversal": (
        lambda: gradient_conflict(method(dann.SourceOnly), DATA),
        "two losses.*no reversal",
    ),
    "distance one example": (
        lambda: feature_distance(method(), ({k: v[:1] for k, v in X.items()}, LABELS[:1])),
        "at least 2 examples of each domain",
    ),
    "labels numbers": (
        lambda: label_loss_baselines(method(), (X, 2.0 * np.eye(2)[LABELS])),
        "one-hot",
    ),
    "game no reversal": (
        lambda: minmax_spectrum(method(dann.SourceOnly), DATA),
        "Expected a reversal.*SourceOnly",
    ),
    "game radius": (lambda: minmax_spectrum(method(task_radius=0.05), DATA), "task_radius=0.05"),
    "leakage few": (
        lambda: leak(np.where(np.arange(40) < 11, SITE, -1)),
        "more than one value.*Received: 11 of 'site'",
    ),
    "leakage two groups per site": (
        lambda: leak(PATIENTS // 2, groups=PATIENTS),
        r"Cannot tell whether 'site'.*at least 3 groups.*too few groups of \[0, 1, 2, 3\]",
    ),
    "leakage ages of 8 patients": (
        lambda: leak(PATIENTS + 0.5, groups=PATIENTS),
        "Cannot tell whether 'site'.*12 if each group has a single number. Received: 8 groups",
    ),
    "leakage floats": (
        lambda: leak(np.where(SITE == 2, np.nan, SITE)),
        r"classes or numbers.*Received: \[0.0, 1.0\]. Pass `kinds=\{'site': 2\}`",
    ),
    "leakage array": (
        lambda: leakage(np.zeros((40, 2)), None, SITE),
        r"leakage\(features, None, nuisances\).*Received: types ndarray, NoneType, ndarray",
    ),
    "leakage pair": (lambda: leakage(method(), DATA, {"site": SITE}), "types DANN, tuple"),
    "leakage texts": (
        lambda: leakage(SITE.astype(str), None, {"site": SITE}),
        "features to be numbers",
    ),
    "leakage dates": (
        lambda: leak(SITE.astype("datetime64[D]")),
        "'site' as a number, such as days",
    ),
    "leakage lengths": (
        lambda: leak(SITE[:9]),
        "one value of 'site' for each of the 40 examples. Received: 9 values",
    ),
    "accuracy kinds": (
        lambda: accuracy_by_nuisance(SITE, SITE.astype(str), SITE),
        r"both strings or both numbers.*\[0\] and predictions such as \['0'\]",
    ),
    "accuracy logits": (
        lambda: accuracy_by_nuisance(SITE, np.zeros((40, 2)), SITE),
        r"`predicted` of shape \(n,\).*shape \(40, 2\)",
    ),
    "accuracy nuisances": (lambda: accuracy_by_nuisance(SITE, SITE, {"site": SITE}), "shape ()"),
    "accuracy infinite": (
        lambda: accuracy_by_nuisance(SITE, SITE, np.full(40, np.inf)),
        "finite values of `nuisance`.*Received: 40",
    ),
    "accuracy lengths": (lambda: accuracy_by_nuisance(SITE, SITE[:9], SITE), "`predicted` for"),
    "confounded lengths": (
        lambda: find_confounded_classes(SITE, SITE[:39]),
        "`nuisance` for each of the 40 labels. Received: 39 values",
    ),
    "binary function": (lambda: straight_through_health(len, X), "Expected a Keras model or layer"),
    "callback name": (lambda: Diagnostics(["gain"]), "'gain'"),
    "callback no data": (lambda: train_with(["discriminator_vs_probe"]), "Expected both domains"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_call_is_refused_with_the_needed_words(name):
    call, words = REFUSALS[name]
    with pytest.raises((TypeError, ValueError), match=f"(?s){words}"):
        call()
