"""Every method's constructor is that of DANN, and its own arguments after it."""

import inspect

import pytest

from dann import adaptation
from dann.adaptation import DANN, AdversarialModel

# What of DANN's arguments means nothing to a method, because it has no
NO_REVERSAL = {"strength", "way"}
NO_DOMAIN_HEAD = {"domain_head", "domain_label_smoothing"}  # discriminator of domains
NO_DOMAIN_LABEL = {"domain_label_smoothing"}  # label to smooth: its critic gives no probability
NO_JOINT_PASS = {"passes"}  # pass over both domains: the source is only watched
MEANINGLESS = {
    "DALN": NO_DOMAIN_HEAD,
    "FDAL": NO_DOMAIN_HEAD,
    "MCD": NO_DOMAIN_HEAD,
    "MDD": NO_DOMAIN_HEAD,
    "WDGRL": NO_DOMAIN_LABEL,
    "SourceOnly": NO_DOMAIN_HEAD | NO_REVERSAL,
    "TargetOnly": NO_DOMAIN_HEAD | NO_REVERSAL,
    "DIRTT": NO_DOMAIN_HEAD | NO_REVERSAL | NO_JOINT_PASS,
}
OTHER_DEFAULTS = {("MDD", "strength"): 0.1}  # the paper's
METHODS = {
    name: value
    for name, value in ((name, getattr(adaptation, name)) for name in adaptation.__all__)
    if inspect.isclass(value) and issubclass(value, AdversarialModel) and value != AdversarialModel
}


def parameters(method):
    """The named parameters of a constructor in order, and their defaults."""
    every = inspect.signature(method).parameters.values()
    assert [p.kind for p in every][-1] == inspect.Parameter.VAR_KEYWORD  # augmentation, name, ...
    return {p.name: p.default for p in every if p.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_no_method_is_lost():
    assert {"DANN", "CDAN", "MADA", "PADA", "MDAN", *MEANINGLESS} <= set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_what_it_shares_with_dann_comes_first_in_the_same_order(name):
    found = parameters(METHODS[name])
    shared = {
        parameter: OTHER_DEFAULTS.get((name, parameter), default)
        for parameter, default in parameters(DANN).items()
        if parameter in found
    }
    assert list(found.items())[: len(shared)] == list(shared.items())
    assert {"backbone", "num_classes", "label_head"} <= set(shared)


@pytest.mark.parametrize("name", ["CDAN", "MADA", "PADA", "MDAN", *MEANINGLESS])
def test_it_lacks_what_means_nothing_to_it_and_nothing_else(name):
    assert set(parameters(DANN)) - set(parameters(METHODS[name])) == MEANINGLESS.get(name, set())
