"""What the diagnostics cost; `tests/scripts/test_benchmark.py` measures it."""

import pytest
from support.linear_models import DATA, linear_dann, network

from dann.diagnostics import gradient_conflict, reversal_certificate
from dann.diagnostics.diagnostics_speed import (
    Cost,
    DiagnosticsSpeed,
    backward_passes,
    cost_table,
)


@pytest.mark.parametrize(
    ("function", "passes"), [(reversal_certificate, 2), (gradient_conflict, 3)]
)
def test_backward_passes_through_the_model_are_counted(function, passes):
    model, _ = linear_dann()
    assert backward_passes(lambda: function(model, DATA, mode="eager")) == passes


def test_the_table_has_a_line_for_each_and_leaves_out_what_is_not_known():
    table = cost_table({"conflict": Cost(12.345, 2.5, 3), "sharpness": Cost(1000.0)})
    lines = [line.split() for line in table.splitlines()[1:]]
    assert lines == [["conflict", "12.35", "2.50", "3"], ["sharpness", "1000.00"]]


@pytest.mark.parametrize(
    ("wrong", "received"),
    [
        ({"few": 1}, "64, 1, 10, 5"),
        ({"batch_size": 1}, "1, 32, 10, 5"),
        ({"num_classes": 0}, "64, 32, 0, 5"),
        ({"rounds": 0}, "64, 32, 10, 0"),
    ],
)
def test_values_out_of_range_are_refused(wrong, received):
    with pytest.raises(ValueError, match=f"must be at least 2.*Received: {received}"):
        DiagnosticsSpeed(network((3, 2), "backbone"), **wrong)
