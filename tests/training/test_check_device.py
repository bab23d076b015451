"""The check of the devices: it passes on this machine, and what is broken fails it."""

import keras
import pytest

from dann.training import check_device as checked
from dann.training.check_device import DeviceError, check_device


def test_this_machine_passes_every_check_in_the_precision_that_it_had():
    lines = [line.partition(":")[0] for line in check_device()]
    steps = [f"step in {name}" for name in ("float32", "mixed_bfloat16", "mixed_float16")]
    ways = [f"reversal, way={way!r}" for way in ("override", "stop_gradient")]
    assert lines == ["devices", *ways, *steps]
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize("factor", [1, -2])
def test_a_wrong_reversal_fails(factor, monkeypatch):
    monkeypatch.setattr(checked, "reverse_gradient", lambda x, strength, way: factor * strength * x)
    with pytest.raises(DeviceError, match="the reversal within"):
        list(check_device())


def test_a_precision_with_too_few_digits_fails(monkeypatch):
    monkeypatch.setattr(checked, "_TOLERANCES", {"float32": 4e-3, "mixed_bfloat16": 4e-3})
    with pytest.raises(DeviceError, match=r"0\.004\. Received: 0\.00"):
        list(check_device())
