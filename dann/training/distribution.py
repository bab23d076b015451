"""How a training is spread over devices, of one machine or of several."""

import contextlib
from collections.abc import Mapping
from typing import Any

from dann.checks import check_choice, check_integer, is_integer
from dann.training.devices_of_backend import SPLITS, mirrored, start_jax
from dann.training.process_group import PATIENCE_SECONDS, ProcessGroup, joined
from dann.training.scheduler import processes_of

KINDS = (None, "data_parallel", "multi_host")


class Distribution:
    """Spreads each batch of a training over several devices.

    Each device holds all weights and gets an equal part of every batch, which stays as large as on
    one device. On TensorFlow it uses `tf.distribute.MirroredStrategy`, on JAX
    `keras.distribution.DataParallel`. `docs/scaling.md` says which numbers are then computed on the
    whole batch and which on each device's part. On JAX, groups of `model_parallel` devices can
    share the weights, as `dann.adaptation.shared_weights.SplitWeights` lays them out.

    With `"multi_host"`, on JAX alone, the devices are those of several processes, each of which
    gives its own the same part of every batch. `dann.training.fit` and `Run` then read that part,
    and process 0 alone calls callbacks and writes.

    Call `split_processor()` before anything else uses the backend, then `join()` and `check()`.
    Give the object to `dann.training.start`, and make and compile the model in `scope()`.

    Args:
        kind: `None` (default), everything on one device; `"data_parallel"`, the devices of this
            machine; or `"multi_host"`, those of several processes.
        devices: A number of devices, at least 1, or `"all"` (default), every accelerator. Without
            accelerators, the processor is split into this number of logical devices. They share its
            cores, so they show whether a training is correct, not how fast it is. With
            `"multi_host"` it is the number of each process, and `"all"` also means one processor.
        coordinator: Address of process 0, `"host:port"`, with a port that is free there. Defaults
            to `None`: as the scheduler (SLURM, Open MPI, Kubernetes) tells JAX.
        num_processes: Number of processes, at least 1. Defaults to `None`: likewise.
        process_id: Number of this process, from 0. Defaults to `None`: likewise.
        model_parallel: Number of devices that share the weights, and get the same part of each
            batch. It divides the number of devices of each process. Defaults to `1`: each holds all
            weights. More are for JAX.

    Raises:
        TypeError: If `model_parallel` is not an integer.
        ValueError: If an argument has another value, or a process is neither given nor found.
    """

    def __init__(
        self,
        kind: str | None = None,
        devices: int | str = "all",
        coordinator: str | None = None,
        num_processes: int | None = None,
        process_id: int | None = None,
        model_parallel: int = 1,
    ):
        self.kind = check_choice("distribution.kind", kind, KINDS)
        number = is_integer(devices) and int(devices) >= 1
        if kind is None and devices != "all":
            raise ValueError(
                "distribution.devices is for distribution=data_parallel or multi_host. "
                f"Received: distribution.devices={devices!r} with distribution=none"
            )
        if devices != "all" and not number:
            raise ValueError(
                "distribution.devices must be a number of devices, at least 1, or 'all'. "
                f"Received: {devices!r}"
            )
        self.devices = devices
        self.model_parallel = check_integer("distribution.model_parallel", model_parallel, 1)
        self._check_groups()
        self._strategy: Any = None
        self.process_id, self.num_processes, self.coordinator = 0, 1, ""
        if kind == "multi_host":
            found = processes_of(coordinator, num_processes, process_id)
            self.coordinator, self.num_processes, self.process_id = found
        elif (coordinator, num_processes, process_id) != (None, None, None):
            raise ValueError(
                "distribution.coordinator, num_processes and process_id are for "
                f"distribution=multi_host. Received: distribution={kind or 'none'}"
            )

    @property
    def leads(self) -> bool:
        """Whether this process writes the run: the only one, or process 0 of several."""
        return self.process_id == 0

    def check_batch_size(self, batch_size: int) -> None:
        """Raises `ValueError` if processes or devices cannot have equal parts of a batch."""
        parts = 1
        if self.kind == "data_parallel" and self.devices != "all":
            parts = int(self.devices) // self.model_parallel
        if batch_size % parts:
            raise ValueError(
                f"The devices split a batch into {parts} equal parts, so trainer.batch_size must "
                f"be a multiple of {parts}. Received: batch_size={batch_size}"
            )
        if batch_size % self.num_processes:
            raise ValueError(
                f"{self.num_processes} processes share a batch in equal parts, so "
                f"trainer.batch_size must be a multiple of {self.num_processes}. "
                f"Received: batch_size={batch_size}"
            )

    def split_processor(self) -> None:
        """Splits the processor into logical devices, if they are needed.

        A backend looks for devices once in a process, so call this before its first use.
        """
        import keras

        split = SPLITS.get(keras.backend.backend())
        if self.kind is not None and split is not None and self.devices != "all":
            with contextlib.suppress(RuntimeError):  # they were found before; `check` counts them
                split(self.devices)

    def join(self, settings: Mapping[str, Any] | None = None) -> ProcessGroup | None:
        """Joins the other processes, if there are any; the first call connects.

        Args:
            settings: What all processes must share, by names, as JSON takes it. Defaults to `None`:
                nothing is compared.

        Raises:
            ConnectionError: If not all are there within 5 minutes, or one has other settings.
            ValueError: If the backend is not JAX.
        """
        import keras

        if self.kind != "multi_host":
            return None
        if keras.backend.backend() != "jax":
            raise ValueError(
                "Several machines need JAX: set KERAS_BACKEND=jax. "
                f"Received: distribution=multi_host on {keras.backend.backend()}"
            )
        group = joined()
        if group is None:
            mine = self.coordinator, self.num_processes, self.process_id
            group = ProcessGroup(*mine, settings)
            group.connect(PATIENCE_SECONDS)
            start_jax(group)
        return group

    def check(self) -> None:
        """Finds the devices.

        Raises:
            ValueError: If there are too few, or the backend is neither TensorFlow nor JAX, which
                alone shares weights.
        """
        import keras

        backend = keras.backend.backend()
        if self.kind is None:
            return
        if backend not in SPLITS:
            raise ValueError(
                "Several devices need TensorFlow or JAX: set KERAS_BACKEND=jax. "
                f"Received: distribution={self.kind} on {backend}"
            )
        if self.model_parallel > 1 and backend != "jax":
            raise ValueError(
                "Devices share weights on JAX alone: set KERAS_BACKEND=jax. "
                f"Received: distribution.model_parallel={self.model_parallel} on {backend}"
            )
        self._names()

    def use(self) -> None:
        """Sets Keras's distribution on JAX, or clears it if `kind` is `None`."""
        import keras

        group = joined()
        if group is not None:
            group.meet()  # loading may take some of them long
        if keras.backend.backend() == "jax":
            spread = None
            if self.model_parallel > 1:
                from dann.adaptation.shared_weights import SplitWeights

                spread = SplitWeights(self._names(), self.model_parallel)
            elif self.kind is not None:  # `pair` gives each process its part
                names, parallel = self._names(), keras.distribution.DataParallel
                spread = parallel(devices=names, auto_shard_dataset=False)
            keras.distribution.set_distribution(spread)

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which a model is made and compiled."""
        import keras

        if self.kind is None or keras.backend.backend() != "tensorflow":
            return contextlib.nullcontext()
        if self._strategy is None:
            self._strategy = mirrored(self._names())
        return self._strategy.scope()

    def _check_groups(self, found=None):
        """Raises `ValueError` if the devices do not make groups that share the weights."""
        size, count = self.model_parallel, found or self.devices
        if size > 1 and self.kind is None:
            raise ValueError(
                "distribution.model_parallel is for distribution=data_parallel or multi_host. "
                f"Received: distribution=none with model_parallel={size}"
            )
        if size > 1 and count != "all" and count % size:
            raise ValueError(
                f"{size} devices share the weights, so distribution.devices must be a multiple of "
                f"{size}. Received: {count} devices"
            )

    def _names(self):
        """The names of the devices."""
        import keras

        names = keras.distribution.list_devices()
        if self.kind == "multi_host":
            return self._names_of_all(names)
        if self.devices == "all":
            if "cpu" in names[0].lower():
                raise ValueError(
                    "distribution.devices=all means every accelerator, and this machine has none; "
                    "a number, such as 2, makes logical devices of the processor. "
                    "Received: distribution.devices=all"
                )
            self._check_groups(len(names))
            return names
        if self.devices > len(names):
            raise ValueError(
                f"Expected no more than the {len(names)} devices that this process has found. "
                f"Received: distribution.devices={self.devices}"
            )
        return names[: self.devices]

    def _names_of_all(self, names):
        """The names of the devices of all processes, which have as many each."""
        import jax  # pyright: ignore[reportMissingImports]

        mine = jax.local_device_count()
        if mine * self.num_processes != len(names) or self.devices not in ("all", mine):
            raise ValueError(
                "Each process must have as many devices, and use them all. Received: "
                f"distribution.devices={self.devices} with {mine} of {len(names)} devices in "
                f"process {self.process_id} of {self.num_processes}"
            )
        self._check_groups(mine)
        return names
