"""Experiments with many runs: comparisons of methods, sweeps, and runs over seeds."""

from dann.experiments.compare import compare as compare
