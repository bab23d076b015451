"""Checks a GPU in about a minute and prints what to report.

python benchmarks/gpu_check.py

The exit status is 1 if there is no GPU or if a gradient is wrong.
"""

import sys
from importlib import metadata

import keras
import numpy as np

from benchmarks.suites.step import by_dann, make_arrays, make_tasks
from benchmarks.timing import time_in_turns
from dann.autodiff import vjp
from dann.gradients import reverse_gradient
from dann.training.devices import describe_hardware, list_accelerators

_PACKAGES = "keras", "tensorflow", "jax", "torch", "nvidia-cuda-runtime", "nvidia-cudnn"
_LIMIT = 1e-2  # a GPU may multiply in TF32, with 10 bits


def measure_error(device: str) -> float:
    """Returns the relative error of the gradient of `reverse_gradient(x w, 0.3)`: `-0.3 u w^T`."""
    rng = np.random.default_rng(0)
    x, w, u = (rng.normal(size=(256, 256)).astype("float32") for _ in range(3))
    with keras.device(device):
        _, [gradient] = vjp(lambda x: reverse_gradient(keras.ops.matmul(x, w), 0.3), [x], [u])
    expected = -0.3 * u @ w.T
    error = keras.ops.convert_to_numpy(gradient) - expected
    return float(np.linalg.norm(error) / np.linalg.norm(expected))


def main():
    """Prints the devices, the versions, the error of a gradient, and the time of a step."""
    packages = [p for p in metadata.distributions() if p.name.startswith(_PACKAGES)]
    print(f"{keras.backend.backend()} on {describe_hardware()}")
    print(", ".join(sorted(f"{package.name} {package.version}" for package in packages)))
    devices = ["cpu:0", "gpu:0"] if list_accelerators() else ["cpu:0"]
    errors = {device: measure_error(device) for device in devices}
    print(f"relative error of a reversed gradient: {errors} (at most {_LIMIT})")
    task = make_tasks()["paper"]
    steps = {"step": by_dann(task, make_arrays(task))}
    seconds = time_in_turns(steps, rounds=3, units=task.steps)["step"].wall.min()
    print(f"training step of DANN with the paper's network: {1000 * seconds:.1f} ms")
    if not all(error <= _LIMIT for error in errors.values()):  # NaN, too
        sys.exit("A gradient is wrong.")
    if len(devices) == 1:
        sys.exit("There is no GPU.")


if __name__ == "__main__":
    main()
