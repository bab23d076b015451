"""Which devices there are, and how a training is spread over them."""

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
    """Spreads each batch of a training over several devices.

    Each device holds all weights and gets an equal part of every batch, which stays as large as on
    one device. On TensorFlow it uses `tf.distribute.MirroredStrategy`, on JAX
    `keras.distribution.DataParallel`.

    With `"multi_host"`, on JAX alone, the devices are those of several processes, which all run the
    same program. `dann.training.fit` and `Run` give each its part of every batch. Give each
    process a directory of its own; that of process 0 is the result.

    Call `connect()` before anything else uses the backend. Give the object to
    `dann.training.start`, and make and compile the model in `scope()`.

    Args:
        kind: `None` (default), everything on one device; `"data_parallel"`, the devices of this
            machine; or `"multi_host"`, those of several processes.
        devices: A number of devices, at least 1, or `"all"` (default). Without accelerators, the
            processor is split into this number of logical devices. They share its cores, so they
            show whether a training is correct, not how fast it is. With `"multi_host"` it is the
            number of each process.
        coordinator: Address of process 0, `"host:port"`, with a port that is free there. Defaults
            to `None`: as the scheduler (SLURM, Open MPI, Kubernetes) tells JAX.
        num_processes: Number of processes. Defaults to `None`: likewise.
        process_id: Number of this process, from 0. Defaults to `None`: likewise.

    Raises:
        TypeError: If `devices` is neither an integer nor `"all"`.
        ValueError: If an argument has another value.
    """

    kind: str | None = None
    devices: Any = "all"
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def __post_init__(self):
        check_choice("distribution.kind", self.kind, KINDS)
        if self.devices != "all":
            check_integer("distribution.devices", self.devices, low=1, why="or 'all'")
        if self.kind is None and self.devices != "all":
            raise ValueError(
                "distribution.devices is for distribution=data_parallel or multi_host. "
                f"Received: distribution.devices={self.devices} with distribution=none"
            )
        self._strategy: Any = None

    def connect(self) -> None:
        """Splits the processor if need be, meets the other processes, and finds the devices.

        Raises:
            RuntimeError: If the other processes are not there within 5 minutes.
            ValueError: If there are too few devices, or the backend cannot do it.
        """
        import keras

        if self.kind is None:
            return
        backend = keras.backend.backend()
        if backend not in (("jax",) if self.kind == "multi_host" else ("tensorflow", "jax")):
            raise ValueError(
                f"distribution={self.kind} needs JAX: set KERAS_BACKEND=jax. Received: {backend}"
            )
        if self.devices != "all":
            with contextlib.suppress(RuntimeError):  # devices were found before; they are counted
                _SPLITS[backend](self.devices)
        if self.kind == "multi_host":
            import jax  # pyright: ignore[reportMissingImports]

            jax.config.update("jax_cpu_collectives_implementation", "gloo")
            which = self.coordinator, self.num_processes, self.process_id
            jax.distributed.initialize(*which, heartbeat_timeout_seconds=30)
        self._names()

    def use(self) -> None:
        """Sets Keras's distribution on JAX, or clears it if `kind` is `None`."""
        import keras

        if keras.backend.backend() == "jax":
            spread = None
            if self.kind is not None:  # `pair` gives each process its part
                parallel = keras.distribution.DataParallel
                spread = parallel(devices=self._names(), auto_shard_dataset=False)
            keras.distribution.set_distribution(spread)

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which a model is made and compiled."""
        import keras

        if self.kind is None or keras.backend.backend() != "tensorflow":
            return contextlib.nullcontext()
        if self._strategy is None:
            self._strategy = _mirrored(self._names())
        return self._strategy.scope()

    def _names(self):
        import keras

        names = keras.distribution.list_devices()
        if self.devices == "all" or self.kind == "multi_host":
            return names
        if self.devices > len(names):
            raise ValueError(
                f"Expected no more than the {len(names)} devices that this process has found. "
                f"Received: distribution.devices={self.devices}"
            )
        return names[: self.devices]


def get_process_position() -> tuple[int, int]:
    """Returns the number of this process, from 0, and how many train together."""
    import keras

    if keras.backend.backend() != "jax":
        return 0, 1
    import jax  # pyright: ignore[reportMissingImports]

    return jax.process_index(), jax.process_count()


def describe_hardware() -> str:
    """Returns the accelerators or the processor, and how many devices or cores are in use."""
    found = list_accelerators()
    if found:
        return " and ".join(f"{n} x {name}" for name, n in sorted(Counter(found).items()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} core{'' if cores == 1 else 's'}"


def list_accelerators() -> list[str]:
    """Returns the product names of the accelerators that the backend finds, one for each."""
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
    # A device that waits for the others holds one of XLA's threads, of which there are as many as
    # cores. With too few, a busy machine's devices wait for each other until XLA aborts.
    os.environ.setdefault("NPROC", str(4 * max(count, os.cpu_count() or 1)))


_SPLITS = {"tensorflow": _split_tensorflow, "jax": _split_jax}


def _mirrored(names):
    import tensorflow as tf

    on_processor = "cpu" in names[0].lower()
    # Collectives, the default on a processor, serve only one strategy a process.
    reduction = tf.distribute.ReductionToOneDevice() if on_processor else None
    return tf.distribute.MirroredStrategy(names, cross_device_ops=reduction)


def _processor():
    """The processor's name, which Python's `platform` does not know on Linux."""
    information = pathlib.Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
