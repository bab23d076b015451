"""Starts Keras's backend and suppresses the messages of its libraries."""

import logging
import os
from collections.abc import Callable

from dann.config.config_error import ConfigError
from dann.standard_error import held_back

BACKENDS = "tensorflow", "jax", "torch"


def start_backend(split_processor: Callable[[], None] | None = None) -> None:
    """Imports Keras and finds the devices, silently unless that fails.

    TensorFlow's C++ libraries write to the file descriptor of standard error before any level of
    logging applies to them. Later messages are kept to errors, unless `TF_CPP_MIN_LOG_LEVEL` is
    set: a run evaluates several models, and each is traced. TensorFlow's oneDNN kernels are
    switched on for every processor, unless `TF_ENABLE_ONEDNN_OPTS` is set: a training step of the
    paper's network took 30% less CPU time. OpenMP's threads, which are PyTorch's, sleep while they
    wait, unless `OMP_WAIT_POLICY` is set: on two cores that other programs used too, a step of
    DANN took 34 ms of CPU time in place of 513.

    Args:
        split_processor: Function to call before the devices are found. Defaults to `None`.

    Raises:
        ConfigError: If the backend is none that trains, or its package is not installed.
    """
    quiet = "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with held_back():
        keras = _keras()
        if split_processor is not None:
            split_processor()
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            tf.config.list_logical_devices()
    logging.getLogger("absl").setLevel(logging.WARNING)
    logging.getLogger("jax").setLevel(logging.WARNING)
    if quiet:
        logging.getLogger("tensorflow").setLevel(logging.ERROR)


def _keras():
    """Imports Keras with its backend, which `KERAS_BACKEND` or Keras's config file names."""
    _check_trains(os.environ.get("KERAS_BACKEND") or BACKENDS[0])
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name not in BACKENDS:
            raise
        package = "tensorflow" if error.name == "tensorflow" else f"'dann[{error.name}]'"
        raise ConfigError(
            f"The backend {error.name} needs its package: pip install {package}; or set "
            f"KERAS_BACKEND to another of {', '.join(BACKENDS)}. Received: {error}"
        ) from error
    _check_trains(keras.backend.backend())
    return keras


def _check_trains(backend):
    if backend not in BACKENDS:
        raise ConfigError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. Received: {backend}"
        )
