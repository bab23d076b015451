"""The check of the devices: it passes on this machine, and what is broken fails it."""

import keras
import pytest

from dann.training import check_device as checked
from dann.training.check_device import DeviceError, check_device


def test_this_machine_passes_every_check_in_the_precision_that_it_had():
    lines = dict(line.split(": ", 1) for line in check_device())
    steps = [f"step in {name}" for name in ("float32", "mixed_bfloat16", "mixed_float16")]
    ways = [f"reversal, implementation={way!r}" for way in ("override", "stop_gradient")]
    assert list(lines) == ["devices", *ways, *steps]
    assert keras.config.dtype_policy().name == "float32"
    off = {name: float(lines[name].split()[0]) for name in steps}
    assert off["step in float32"] < 4e-3 < off["step in mixed_bfloat16"]  # its tolerance is 3e-2


@pytest.mark.parametrize("factor", [1, -2])
def test_a_wrong_reversal_fails(factor, monkeypatch):
    monkeypatch.setattr(checked, "reverse_gradient", lambda x, strength, way: factor * strength * x)
    with pytest.raises(DeviceError, match="the reversal within"):
        list(check_device())
