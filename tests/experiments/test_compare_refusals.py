"""Arguments that `dann.compare` refuses before it trains."""

import numpy as np
import pytest

import dann


def make_backbone():
    return dann.networks.mlp_backbone((3,), hidden_units=(4,))


INPUTS = np.random.default_rng(0).normal(size=(90, 3))
DOMAINS = dann.data.arrays((INPUTS, np.arange(90) % 3), INPUTS + 2.0)
NUMBERS = dann.data.arrays((np.eye(3), np.arange(3) / 2), np.eye(3) + 1)
NETWORK = make_backbone()
SHORT = {"methods": ["dann"], "seeds": [0], "steps": 2, "verbose": False}
REFUSALS = {
    "same backbone": ({**SHORT, "backbone": lambda: NETWORK}, "a new network"),
    "trees": ({"domains": NUMBERS, "methods": ["gradient_boosting"]}, "support regression.*'gradi"),
    "unknown method": ({"methods": ["danna"]}, "methods.*danna"),
    "a method as a text": ({"methods": "dann"}, r"`methods` to be a list.*\['dann', 'cdan'\]"),
    "a model as method": ({"methods": [NETWORK]}, r"functions of `\(backbone, num_classes\)`"),
    "one seed": ({"seeds": 3}, "`seeds` to be a list"),
    "no seeds": ({"seeds": []}, "`seeds` to be a list"),
    "seed of half": ({"seeds": [0.5]}, "seeds=0.5"),
    "equal seeds": ({"seeds": [0, 0]}, "different seeds"),
    "name of the average": ({"methods": {"distilled_average": dann.DANN}}, "the average of"),
    "name of the baseline": ({"methods": {"source_only": dann.DANN}}, "is the baseline"),
    "equal names": ({"methods": [dann.DANN, dann.DANN]}, "pass a dict by name"),
    "text optimizer": ({"optimizer": "adam"}, "`optimizer` to be a function without arguments"),
    "backbone with arguments": ({"backbone": dann.networks.mlp_backbone}, "without arguments"),
    "a model as backbone": ({"backbone": NETWORK}, "`backbone` to be a function.*lambda"),
    "pairs": ({"domains": DOMAINS.batches(8)}, "`dann.data.arrays"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSALS.values(), ids=REFUSALS)
def test_wrong_arguments_are_refused(arguments, words, capsys):
    with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        dann.compare(**{"domains": DOMAINS, "backbone": make_backbone, **arguments})
    assert not capsys.readouterr().out
