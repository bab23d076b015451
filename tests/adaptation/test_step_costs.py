"""What a step costs each device when every device gets as many examples as before."""

import json
import pathlib
import subprocess
import sys

import keras
import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / "support" / "step_costs.py"


def costs(*devices):
    """The costs with a number of devices, and of those that share the weights."""
    count, *shared = map(str, devices)
    command = [sys.executable, str(SCRIPT), "paper", count, "4", *shared]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads the program that JAX compiles")
def test_each_device_computes_as_much_and_sums_one_gradient_of_every_weight():
    alone, shared = costs(1), costs(2)
    assert alone["collectives"] == {}
    assert shared["flops"] == pytest.approx(alone["flops"], rel=0.01)
    assert shared["collectives"]["all-reduce"] == pytest.approx(alone["weights_bytes"], rel=0.01)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads the program that JAX compiles")
def test_two_devices_that_share_the_weights_hold_and_compute_half_each():
    alone, shared = costs(1), costs(2, 2)
    assert shared["held_bytes"] == pytest.approx(alone["held_bytes"] / 2, rel=0.01)
    assert shared["flops"] == pytest.approx(alone["flops"] / 2, rel=0.02)
