"""All ways of a suite do the same work; ways are timed in turns."""

import pathlib
import subprocess
import sys
import types

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares with programs of TensorFlow", allow_module_level=True)

from benchmarks.suites import input as input_suite  # noqa: E402
from benchmarks.suites import jacobian, step  # noqa: E402
from benchmarks.timing import Comparison, Times, in_turns, table  # noqa: E402
from dann.networks import cnn_backbone, mnist_backbone  # noqa: E402

RUN = pathlib.Path(__file__).parents[2] / "benchmarks/run.py"


def test_the_script_reads_its_config_and_names_its_suites():
    done = subprocess.run([sys.executable, RUN, "suite=none"], capture_output=True, text=True)
    assert (done.returncode, "'jacobian'" in done.stderr) == (1, True), done.stderr


def task(name):
    paper = mnist_backbone((16, 16, 1), input_range=(0, 1))
    small = cnn_backbone((8, 8, 3), (4,), 5, input_range=(0, 1))
    return step.Task({"paper": paper, "small": small}[name], (5,), (4,), steps=1, batch_size=6)


def losses_by_hand(name):
    by_hand, arrays = step.step_by_hand(step.parts_of(task(name))), step.arrays_of(task(name))
    return pytest.approx([float(by_hand(*arrays)) for _ in range(3)], rel=1e-4)


def test_dann_takes_the_step_that_is_written_by_hand():
    run = step.by_dann(task("paper"), step.arrays_of(task("paper")))
    assert [run().history["loss"][0] for _ in range(3)] == losses_by_hand("paper")


@pytest.mark.filterwarnings("ignore:CUDA initialization")
@pytest.mark.parametrize("name", ["paper", "small"])
def test_pytorch_takes_the_step_that_is_written_by_hand(name):
    pytest.importorskip("torch")
    from benchmarks.rivals.torch_twin import torch_steps

    arrays = step.arrays_of(task(name))
    run = torch_steps(step.parts_of(task(name)), arrays, batch_size=6, rate=step.RATE)
    assert [run() for _ in range(3)] == losses_by_hand(name)


def test_jacobians_are_those_of_the_tape():
    ways = jacobian.ways_of(mnist_backbone((16, 16, 1)), keras.ops.ones((2, 16, 16, 1)))
    found = {name: np.asarray(way()) for name, way in ways.items()}
    for one in ("dann, batch_jacobian", "tape.batch_jacobian, while"):
        np.testing.assert_allclose(found[one], found["tape.batch_jacobian, pfor"], atol=1e-5)


def test_pairs_of_images_end_with_a_table():
    settings = types.SimpleNamespace(rounds=1, seconds=0.0)
    [found] = input_suite.image_pairs(settings, images=40, image_size=32, batch_size=8)
    assert len(table([found]).splitlines()) == 5


def test_ways_take_turns_after_one_call_each_and_ratios_are_paired_by_round():
    calls = []
    in_turns({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=3)
    assert calls == list("abababab")
    times = {
        name: Times(np.array(cpu), np.array(cpu)) for name, cpu in (("b", [1, 3]), ("a", [4, 9]))
    }
    np.testing.assert_array_equal(Comparison("a task", times).ratios("a"), [4.0, 3.0])
