"""The name and the memory of the processor or accelerator that a run uses."""

import os
import pathlib
import platform
from collections import Counter

import keras


def hardware() -> str:
    """Returns the accelerators or the processor, and how many devices or cores are in use."""
    found = accelerators()
    if found:
        return " and ".join(f"{n} x {name}" for name, n in sorted(Counter(found).items()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} core{'' if cores == 1 else 's'}"


def accelerators() -> list[str]:
    """Returns the product names of the accelerators that the backend finds, one for each."""
    if keras.backend.backend() == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        return [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    if keras.backend.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        return [device.device_kind for device in jax.devices() if device.platform != "cpu"]
    import tensorflow as tf

    details = tf.config.experimental.get_device_details
    return [
        details(device).get("device_name", device.device_type)
        for device in tf.config.get_visible_devices()
        if device.device_type not in ("CPU", "TPU_SYSTEM")
    ]


def _processor():
    """The processor's name, which Python's `platform` does not know on Linux."""
    information = pathlib.Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
