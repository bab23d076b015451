"""The suites by name: functions of the settings in `conf/benchmark.yaml`."""

from benchmarks.suites.commands import whole_runs
from benchmarks.suites.input import image_pairs
from benchmarks.suites.jacobian import jacobians
from benchmarks.suites.nuisance import hidden_nuisances
from benchmarks.suites.packed import packed_networks
from benchmarks.suites.step import training_steps

SUITES = {
    "step": training_steps,
    "run": whole_runs,
    "input": image_pairs,
    "jacobian": jacobians,
    "packed": packed_networks,
    "nuisance": hidden_nuisances,
}

__all__ = ["SUITES"]
