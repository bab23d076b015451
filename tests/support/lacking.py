"""What a backend lacks: marks that leave a test out there, and rows of docs/running.md."""

import pytest

several_steps = pytest.mark.lacking("torch", "`steps_per_execution` above 1, which Keras refuses")
compiled = pytest.mark.lacking(
    "torch", "compiled functions: every call runs the model, nothing is traced once"
)
compiled_schedules = pytest.mark.lacking(
    "torch",
    "schedules in a step compiled by `jit_compile=True`, which `auto` never chooses there: "
    "`torch.compile` takes the strength of the next step",
)
seeded_dropout = pytest.mark.lacking(
    "torch",
    "exact resuming with dropout, which Keras draws from torch's global generator and not from its "
    "own seeds",
)
nan_of_strange_domains = pytest.mark.lacking(
    "torch", "NaN for a number of a source that is out of range: torch raises its own error"
)
