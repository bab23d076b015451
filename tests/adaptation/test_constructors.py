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


def test_every_method_is_looked_at():
    assert {"DANN", "CDAN", "MADA", "PADA", "MDAN", *MEANINGLESS} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_it_begins_with_the_parameters_of_dann_in_their_order(name):
    without = MEANINGLESS.get(name, set())
    wanted = {
        parameter: OTHER_DEFAULTS.get((name, parameter), default)
        for parameter, default in parameters(DANN).items()
        if parameter not in without
    }
    found = parameters(METHODS[name])
    assert list(found.items())[: len(wanted)] == list(wanted.items())
    assert not without & set(found)
