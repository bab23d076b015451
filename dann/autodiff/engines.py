"""The file of `dann.autodiff` that belongs to the running Keras backend."""

import importlib
from typing import Any

import keras

_ENGINES = {"tensorflow": "dann.autodiff.on_tensorflow", "jax": "dann.autodiff.on_jax"}


def running_engine() -> Any:
    """Returns the module that differentiates on the running Keras backend.

    Raises:
        NotImplementedError: On a backend other than TensorFlow and JAX.
    """
    backend = keras.backend.backend()
    if backend not in _ENGINES:
        raise NotImplementedError(
            f"Derivatives are there on {sorted(_ENGINES)}. Received: Keras backend {backend!r}"
        )
    return importlib.import_module(_ENGINES[backend])
