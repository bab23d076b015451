"""Names of devices. tests/adaptation tests what several devices compute."""

import os
import re

import pytest

from dann.training import devices as module


@pytest.mark.parametrize(
    ("accelerators", "cores", "description"),
    [
        ([], {3}, ".+, 1 core"),
        ([], {0, 1}, ".+, 2 cores"),
        (["H100"] * 2, {3}, "2 x H100"),
        (["L4", "H100", "L4"], {3}, "1 x H100 and 2 x L4"),
    ],
)
def test_hardware_counts_accelerators_or_usable_cores(
    accelerators, cores, description, monkeypatch
):
    monkeypatch.setattr(module, "list_accelerators", lambda: accelerators)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores, raising=False)
    assert re.fullmatch(description, module.describe_hardware())
