"""How a training is spread over the devices of a machine."""

import contextlib
from typing import Any

from dann.checks import check_choice

KINDS = (None, "data_parallel")


class Distribution:
    """Spreads each batch of a training over several devices.

    Each device holds all weights and gets an equal part of every batch, which stays as large as on
    one device. On TensorFlow it uses `tf.distribute.MirroredStrategy`, on JAX
    `keras.distribution.DataParallel`. `docs/scaling.md` says which numbers are then computed on the
    whole batch and which on each device's part.

    Call `split_processor()` before anything else uses the backend, then `check()`. Give the object
    to `dann.training.start`, and make and compile the model in `scope()`.

    Args:
        kind: `None` (default), everything on one device; or `"data_parallel"`.
        devices: A number of devices, at least 1, or `"all"` (default), every accelerator. Without
            accelerators, the processor is split into this number of logical devices. They share its
            cores, so they show whether a training is correct, not how fast it is.

    Raises:
        ValueError: If an argument has another value.
    """

    def __init__(self, kind: str | None = None, devices: int | str = "all"):
        self.kind = check_choice("distribution.kind", kind, KINDS)
        number = isinstance(devices, int) and not isinstance(devices, bool) and devices >= 1
        if kind is not None and devices != "all" and not number:
            raise ValueError(
                "distribution.devices must be a number of devices, at least 1, or 'all'. "
                f"Received: {devices!r}"
            )
        self.devices = devices
        self._strategy: Any = None

    def split_processor(self) -> None:
        """Splits the processor into logical devices, if they are needed.

        A backend looks for devices once in a process, so call this before its first use.
        """
        import keras

        split = _SPLIT.get(keras.backend.backend())
        if self.kind is not None and split is not None and self.devices != "all":
            with contextlib.suppress(RuntimeError):  # they were found before; `check` counts them
                split(self.devices)

    def check(self) -> None:
        """Finds the devices.

        Raises:
            ValueError: If there are too few, or the backend is neither TensorFlow nor JAX.
        """
        import keras

        backend = keras.backend.backend()
        if self.kind is None:
            return
        if backend not in _SPLIT:
            raise ValueError(
                "Several devices need TensorFlow or JAX: set KERAS_BACKEND=jax. "
                f"Received: distribution={self.kind} on {backend}"
            )
        self._names()

    def use(self) -> None:
        """Sets Keras's distribution on JAX, or clears it if `kind` is `None`."""
        import keras

        if keras.backend.backend() == "jax":
            spread = self.kind and keras.distribution.DataParallel(devices=self._names())
            keras.distribution.set_distribution(spread or None)

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which a model is made and compiled."""
        import keras

        if self.kind is None or keras.backend.backend() != "tensorflow":
            return contextlib.nullcontext()
        if self._strategy is None:
            self._strategy = _mirrored(self._names())
        return self._strategy.scope()

    def _names(self):
        """The names of the devices."""
        import keras

        names = keras.distribution.list_devices()
        if self.devices == "all":
            if "cpu" in names[0].lower():
                raise ValueError(
                    "distribution.devices=all means every accelerator, and this machine has none; "
                    "a number, such as 2, makes logical devices of the processor. "
                    "Received: distribution.devices=all"
                )
            return names
        if self.devices > len(names):
            raise ValueError(
                f"Expected no more than the {len(names)} devices that this process has found. "
                f"Received: distribution.devices={self.devices}"
            )
        return names[: self.devices]


def _split_tensorflow(count):
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        processor = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * count
        tf.config.set_logical_device_configuration(processor, logical)


def _split_jax(count):
    import jax  # pyright: ignore[reportMissingImports]

    jax.config.update("jax_num_cpu_devices", count)


_SPLIT = {"tensorflow": _split_tensorflow, "jax": _split_jax}


def _mirrored(names):
    import tensorflow as tf

    on_processor = "cpu" in names[0].lower()
    # Collectives, the default on a processor, serve only one strategy a process.
    reduction = tf.distribute.ReductionToOneDevice() if on_processor else None
    return tf.distribute.MirroredStrategy(names, cross_device_ops=reduction)
