"""What the diagnostics cost; `test_run.py` measures it."""

import pytest
from support.networks import network

from benchmarks.suites.diagnostics import DiagnosticsSuite


def suite(**changes):
    arguments = {"num_classes": 2, "batch_size": 4, "few": 2, "rounds": 1, **changes}
    return DiagnosticsSuite(network((3, 2), "backbone"), **arguments)


def test_backward_passes_through_the_backbone_are_counted():
    assert suite().passes() == {
        "certificate, eager": "2 backward passes",
        "conflict, eager": "3 backward passes",
    }


@pytest.mark.parametrize(
    "wrong", [{"few": 1}, {"batch_size": 1}, {"num_classes": 0}, {"rounds": 0}], ids=str
)
def test_a_value_out_of_range_raises_an_error(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}={value}"):
        suite(**wrong)
