"""Suites by name: functions of the settings in `conf/benchmark.yaml`."""

from benchmarks.suites.commands import measure_runs
from benchmarks.suites.input import measure_input
from benchmarks.suites.nuisance import measure_nuisances
from benchmarks.suites.packed import measure_packed
from benchmarks.suites.step import measure_steps

SUITES = {
    "step": measure_steps,
    "run": measure_runs,
    "input": measure_input,
    "packed": measure_packed,
    "nuisance": measure_nuisances,
}

__all__ = ["SUITES"]
