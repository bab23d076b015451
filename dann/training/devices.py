"""The devices of the backend, and the distribution of training over several devices."""

import contextlib
import dataclasses
import os
import pathlib
import platform
from collections import Counter
from typing import Any

from dann.checks import check_choice, check_integer

KINDS = (None, "data_parallel", "multi_host")


@dataclasses.dataclass(eq=False)
class Distribution:
    """Distributes each batch over several devices.

    Each device has a copy of all weights and receives an equal part of every batch. The batch size
    is the same as on one device. The distribution uses `tf.distribute.MirroredStrategy` on
    TensorFlow and `keras.distribution.DataParallel` on JAX.

    With `"multi_host"`, only on JAX, the devices belong to several processes that run the same
    program. `dann.training.fit` gives each process its part of every batch. Each process needs its
    own directory; the directory of process 0 contains the result.

    Call `connect()` before anything else uses the backend. Pass the object to
    `dann.training.preparation.start`, and create and compile the model in `scope()`.

    Args:
        kind: `None` (default), one device; `"data_parallel"`, the devices of this machine; or
            `"multi_host"`, the devices of several processes.
        devices: A number of devices, at least 1, or `"all"` (default). Without accelerators, the
            CPU is split into this number of logical devices, which share its cores: use them to
            test whether distributed training is correct, not its speed. With `"multi_host"`, the
            number of devices per process.
        coordinator: Address of process 0, `"host:port"`, with a free port. Defaults to `None`: the
            address that the scheduler (SLURM, Open MPI, Kubernetes) passes to JAX.
        num_processes: Number of processes. Defaults to `None`: the number from the scheduler.
        process_id: Number of this process, from 0. Defaults to `None`: the number from the
            scheduler.

    Raises:
        TypeError: If `devices` is neither an integer nor `"all"`.
        ValueError: If an argument has an unexpected value.
    """

    kind: str | None = None
    devices: Any = "all"
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def __post_init__(self):
        check_choice("distribution.kind", self.kind, KINDS)
        if self.devices != "all":
            check_integer("distribution.devices", self.devices, low=1, hint="or 'all'")
        if self.kind is None and self.devices != "all":
            raise ValueError(
                "Expected distribution=data_parallel or multi_host with distribution.devices. "
                f"Received: distribution.devices={self.devices} with distribution=none"
            )
        self._strategy: Any = None

    def connect(self) -> None:
        """Splits the CPU if necessary, connects to other processes, and counts the devices.

        Raises:
            RuntimeError: If the other processes do not connect within 5 minutes.
            ValueError: If there are too few devices, or the backend does not support this kind.
        """
        import keras

        if self.kind is None:
            return
        backend = keras.backend.backend()
        if backend not in (("jax",) if self.kind == "multi_host" else ("tensorflow", "jax")):
            raise ValueError(
                f"Expected the backend JAX for distribution={self.kind}. Received: {backend}. Set "
                "KERAS_BACKEND=jax."
            )
        if self.devices != "all":
            # A backend that has started cannot split; `_get_device_names` then raises an error.
            with contextlib.suppress(RuntimeError):
                _SPLITS[backend](self.devices)
        if self.kind == "multi_host":
            import jax  # pyright: ignore[reportMissingImports]

            jax.config.update("jax_cpu_collectives_implementation", "gloo")
            jax.distributed.initialize(
                self.coordinator, self.num_processes, self.process_id, heartbeat_timeout_seconds=30
            )
        self._get_device_names()

    def use(self) -> None:
        """Sets Keras's distribution on JAX, or clears it if `kind` is `None`."""
        import keras

        if keras.backend.backend() == "jax":
            distribution = None
            if self.kind is not None:
                # The pairs of `dann.data.pair` are sharded already.
                distribution = keras.distribution.DataParallel(
                    devices=self._get_device_names(), auto_shard_dataset=False
                )
            keras.distribution.set_distribution(distribution)

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which to create and compile a model."""
        import keras

        if self.kind is None or keras.backend.backend() != "tensorflow":
            return contextlib.nullcontext()
        if self._strategy is None:
            import tensorflow as tf

            names = self._get_device_names()
            is_processor = "cpu" in names[0].lower()
            # Collectives, the default on a processor, support only one strategy per process.
            reduction = tf.distribute.ReductionToOneDevice() if is_processor else None
            self._strategy = tf.distribute.MirroredStrategy(names, cross_device_ops=reduction)
        return self._strategy.scope()

    def _get_device_names(self):
        import keras

        names = keras.distribution.list_devices()
        if self.devices == "all" or self.kind == "multi_host":
            return names
        if self.devices > len(names):
            raise ValueError(
                f"Expected at most {len(names)} devices, the number that this process has found. "
                f"Received: distribution.devices={self.devices}"
            )
        return names[: self.devices]


def get_process_position() -> tuple[int, int]:
    """Returns the number of this process, from 0, and the number of processes."""
    import keras

    if keras.backend.backend() != "jax":
        return 0, 1
    import jax  # pyright: ignore[reportMissingImports]

    return jax.process_index(), jax.process_count()


def describe_hardware() -> str:
    """Returns the number and names of the accelerators, or the CPU and its usable cores."""
    counts = Counter(list_accelerators())
    if counts:
        return " and ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # `platform` does not find the name of the CPU on Linux.
    information = pathlib.Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {cores} core{'' if cores == 1 else 's'}"


def list_accelerators() -> list[str]:
    """Returns the product name of each accelerator that the backend finds."""
    import keras

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


def _split_tensorflow(count):
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        processor = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * count
        tf.config.set_logical_device_configuration(processor, logical)


def _split_jax(count):
    import jax  # pyright: ignore[reportMissingImports]

    jax.config.update("jax_num_cpu_devices", count)
    # A device that waits for other devices blocks one of XLA's threads, one per core by default.
    # With too few threads, the devices of a busy machine wait for each other until XLA aborts.
    os.environ.setdefault("NPROC", str(4 * max(count, os.cpu_count() or 1)))


_SPLITS = {"tensorflow": _split_tensorflow, "jax": _split_jax}
