"""Checks that the programs of a suite do the same work and take turns."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares with programs of TensorFlow", allow_module_level=True)

from benchmarks import gpu_check  # noqa: E402
from benchmarks.suites import step  # noqa: E402
from benchmarks.timing import Comparison, Times, time_in_turns  # noqa: E402
from dann.networks import cnn_backbone, mnist_backbone  # noqa: E402


def make_task(name):
    paper = mnist_backbone((16, 16, 1), input_range=(0, 1))
    small = cnn_backbone((8, 8, 3), (4,), 5, input_range=(0, 1))
    return step.Task({"paper": paper, "small": small}[name], (5,), (4,), steps=1, batch_size=6)


def handwritten_losses(name):
    by_hand, arrays = (
        step.step_by_hand(step.make_parts(make_task(name))),
        step.make_arrays(make_task(name)),
    )
    return pytest.approx([float(by_hand(*arrays)) for _ in range(3)], rel=1e-4)


def test_dann_step_matches_handwritten_step():
    run = step.by_dann(make_task("paper"), step.make_arrays(make_task("paper")))
    assert [run().history["loss"][0] for _ in range(3)] == handwritten_losses("paper")


@pytest.mark.filterwarnings("ignore:CUDA initialization")
@pytest.mark.parametrize("name", ["paper", "small"])
def test_pytorch_step_matches_handwritten_step(name):
    pytest.importorskip("torch")
    from benchmarks.rivals.torch_twin import torch_steps

    arrays = step.make_arrays(make_task(name))
    run = torch_steps(step.make_parts(make_task(name)), arrays, batch_size=6, rate=step.RATE)
    assert [run() for _ in range(3)] == handwritten_losses(name)


def test_gpu_check_finds_reversed_gradient():
    assert gpu_check.measure_error("cpu:0") < 1e-6


def test_programs_take_turns_and_ratios_are_per_round():
    calls = []
    time_in_turns({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=3)
    assert calls == list("abababab")
    times = {
        name: Times(np.array(cpu), np.array(cpu)) for name, cpu in (("b", [1, 3]), ("a", [4, 9]))
    }
    np.testing.assert_array_equal(Comparison("a task", times).ratios("a"), [4.0, 3.0])
