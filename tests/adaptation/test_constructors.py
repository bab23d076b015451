"""Every constructor takes the arguments of DANN that mean something to it, then its own."""

import inspect

import pytest

import dann
from dann import adaptation
from dann.adaptation import DANN

# Arguments of DANN that a method lacks, and why.
NO_REVERSAL = {"strength", "way"}  # it has no gradient reversal
NO_DOMAIN_HEAD = {"domain_head", "domain_label_smoothing"}  # it has no discriminator of domains
NO_DOMAIN_LABEL = {"domain_label_smoothing"}  # its critic gives no probability
NO_JOINT_PASS = {"passes"}  # it only watches the source
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
METHODS = {cls.__name__: cls for cls in adaptation.METHODS.values()}


def parameters(method):
    """The named parameters of a constructor in order, and their defaults."""
    every = inspect.signature(method).parameters.values()
    assert [p.kind for p in every][-1] == inspect.Parameter.VAR_KEYWORD  # augmentation, name, ...
    return {p.name: p.default for p in every if p.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD}


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


@pytest.mark.parametrize("name", sorted({"CDAN", "MADA", "PADA", "MDAN", *MEANINGLESS}))
def test_it_lacks_only_arguments_that_mean_nothing_to_it(name):
    assert set(parameters(DANN)) - set(parameters(METHODS[name])) == MEANINGLESS.get(name, set())


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"SourceOnly", "TargetOnly", "DIRTT"}))
def test_a_strength_of_none_is_refused(name):
    facts = next(e.facts for e in adaptation.METHODS.entries() if e.thing is METHODS[name])
    with pytest.raises(TypeError, match=f"`strength` must be a number .*None for `{name}`"):
        METHODS[name](
            dann.networks.mlp_backbone((3,), hidden_units=(2,)),
            num_classes=2,
            **{**facts.get("needs", {}), "strength": None},
        )


def test_a_method_of_ones_own_may_have_no_reversal():
    class Plain(adaptation.AdversarialModel):
        pass

    class Mine(adaptation.AdversarialModel):
        def __init__(self, backbone, num_classes, strength=None):
            super().__init__(backbone, num_classes, strength=strength)

    class Named(adaptation.SourceOnly):
        def __init__(self, backbone, num_classes, strength=1.0):
            super().__init__(backbone, num_classes)

    backbone = dann.networks.mlp_backbone((3,), hidden_units=(2,))
    assert Plain(backbone, num_classes=2, strength=None).reversal is None
    assert Mine(backbone, 2).reversal is None
    assert Mine(backbone, 2, 0.5).reversal is not None
    assert Named(backbone, 2).reversal is None
