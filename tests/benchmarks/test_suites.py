"""Checks the programs of the suites, and that the natural tasks resume and hold styles out."""

import keras
import numpy as np
import pandas
import pytest

import dann

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares with programs of TensorFlow", allow_module_level=True)

from benchmarks import gpu_check, natural_tasks  # noqa: E402
from benchmarks.suites import step  # noqa: E402
from benchmarks.timing import Comparison, Times, time_in_turns  # noqa: E402
from dann.networks import cnn_backbone, mlp_backbone, mnist_backbone  # noqa: E402


def make_task(name):
    paper = mnist_backbone((16, 16, 1), input_range=(0, 1))
    small = cnn_backbone((8, 8, 3), (4,), 5, input_range=(0, 1))
    return step.Task({"paper": paper, "small": small}[name], (5,), (4,), steps=1, batch_size=6)


def handwritten_losses(name):
    task = make_task(name)
    by_hand, arrays = step.step_by_hand(step.make_parts(task)), step.make_arrays(task)
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
    rounds = {"b": np.array([1, 3]), "a": np.array([4, 9])}
    times = {name: Times(seconds, seconds) for name, seconds in rounds.items()}
    np.testing.assert_array_equal(Comparison("a task", times).ratios("a"), [4.0, 3.0])


@pytest.mark.slow
def test_only_missing_settings_are_trained(monkeypatch):
    monkeypatch.setattr(natural_tasks, "SEEDS", (0,))
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    domains = dann.data.arrays((x, y), (x + 1, y))
    finished = {"source_only", "target_only", "MCC", *natural_tasks.STANDARDIZED}
    methods = natural_tasks.BASELINES | {"DANN": dann.DANN}
    tables = natural_tasks.train_task(lambda: domains, mlp_backbone, methods, finished, 2)
    rows = pandas.concat(tables)
    settings = {"CORAL", "DANN", "gradient boosting", "DANN, beta_1 0.9"}
    settings |= {"MCC, beta_1 0.5", "source only, beta_1 0.5"}
    assert sorted(rows["setting"]) == sorted(settings)
    assert rows["target/balanced_accuracy"].between(0, 1).all()


def test_held_out_styles_are_trained_last():
    tasks = [*natural_tasks.make_tasks("folder")]
    held_out = [not {"noto", "twemoji"}.isdisjoint(task.split()) for task in tasks]
    assert (held_out, sum(held_out)) == (sorted(held_out), 44)
