"""The check of the devices: it passes on this machine, and what is broken fails it."""

import keras
import pytest

from dann.training import check_device as checked
from dann.training.check_device import check_device


def test_this_machine_passes_every_check_in_the_precision_that_it_had():
    lines = dict(line.split(": ", 1) for line in check_device())
    steps = [f"step in {name}" for name in ("float32", "mixed_bfloat16", "mixed_float16")]
    assert list(lines) == ["devices", *steps]
    assert keras.config.dtype_policy().name == "float32"
    off = {name: float(lines[name].split()[0]) for name in steps}
    assert off["step in float32"] < 4e-3 < off["step in mixed_bfloat16"]  # its tolerance is 3e-2


def test_a_step_that_is_off_fails(monkeypatch):
    monkeypatch.setattr(checked, "_TOLERANCES", {"mixed_bfloat16": 1e-5})
    with pytest.raises(RuntimeError, match="Expected a step within 1e-05"):
        list(check_device())
