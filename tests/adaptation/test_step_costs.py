"""What a step costs each device when every device gets as many examples as before."""

import json
import pathlib
import subprocess
import sys

import keras
import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / "support" / "step_costs.py"


def costs(devices):
    command = [sys.executable, str(SCRIPT), "paper", str(devices), "4"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads the program that JAX compiles")
def test_each_device_computes_as_much_and_sums_one_gradient_of_every_weight():
    alone, shared = costs(1), costs(2)
    assert alone["collectives"] == {}
    assert shared["flops"] == pytest.approx(alone["flops"], rel=0.01)
    assert shared["collectives"]["all-reduce"] == pytest.approx(alone["weights_bytes"], rel=0.01)
