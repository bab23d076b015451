"""Arguments of the suites that are out of range."""

import pytest
from support.networks import network

from benchmarks.rivals import without
from benchmarks.suites import SUITES


@pytest.mark.parametrize(
    ("suite", "arguments", "received"),
    [
        ("input", {"rounds": 0}, "rounds=0"),
        ("input", {"seconds": 0}, "seconds=0"),
        ("input", {"images": 60}, "images=60, batch_size=32"),
        ("input", {"photo_size": (500, 375)}, r"\[500, 375\]"),
        ("input", {"photo_size": [60]}, r"\[60\]"),
        ("jacobian", {"networks": {}}, r"\[\]"),
        ("jacobian", {"memory_budget": 0}, "memory_budget=0"),
        ("jacobian", {"rounds": 0}, "rounds=0"),
        ("jacobian", {"batch_sizes": [1, 0]}, "batch_sizes=0"),
        ("jacobian", {"only": ["while"]}, "only='while'"),
        ("growth", {"filters": [8]}, r"\[8\]"),
        ("packed", {"batches": [0]}, r"batches=\[0\]"),
        ("profile", {"rounds": 0}, "rounds=0"),
        ("step", {"seconds": -1}, "seconds=-1"),
        ("diagnostics", {"few": 1}, "few=1"),
        ("diagnostics", {"batch_size": 1}, "batch_size=1"),
        ("diagnostics", {"num_classes": 0}, "num_classes=0"),
        ("diagnostics", {"rounds": 0}, "rounds=0"),
        ("selection", {"examples": [11]}, r"examples=\[11\]"),
        ("selection", {"slow": "dev"}, "slow='dev'"),
        ("selection", {"rounds": 0}, "rounds=0"),
    ],
)
def test_a_value_out_of_range_raises_an_error(suite, arguments, received):
    model = network((3, 2), "backbone")
    of_one = {"backbone": model}
    needed = {"jacobian": {"networks": {"small": model}}, "diagnostics": of_one}
    needed["selection"] = of_one
    needed["step"] = needed["profile"] = {"networks": {}}
    ((name, _),) = arguments.items()
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {received}"):
        SUITES[suite](**{**needed.get(suite, {}), **arguments})


@pytest.mark.parametrize(
    ("suite", "arguments"),
    [
        ("input", {"images": None}),
        ("input", {"photo_size": ["a", "b"]}),
        ("jacobian", {"networks": {"small": 3}}),
        ("jacobian", {"memory_budget": None}),
        ("jacobian", {"only": "tape.jacobian"}),
        ("step", {"networks": 3}),
        ("step", {"networks": {"small": 3}}),
        ("growth", {"devices": 3}),
        ("diagnostics", {"backbone": None}),
        ("selection", {"backbone": None}),
        ("selection", {"examples": 5}),
    ],
)
def test_a_value_of_another_type_is_named(suite, arguments):
    small = network((3, 2), "backbone")
    needed = {"jacobian": {"networks": {"small": small}}, "selection": {"backbone": small}}
    ((name, _),) = arguments.items()
    with pytest.raises(TypeError, match=f"`{name}`.*Received: "):
        SUITES[suite](**{**needed.get(suite, {}), **arguments})


def test_rivals_that_are_not_installed_are_named():
    told = "left out, because not installed: no_rival, nor_this"
    assert without(["numpy"], "a bound") == "a bound"
    assert without(["numpy", "no_rival", "nor_this"]) == told
    assert without(["no_rival", "nor_this"], "a bound") == f"a bound; {told}"
