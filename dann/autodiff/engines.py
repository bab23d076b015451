"""Which engine differentiates: the one for the running Keras backend.

An engine is a module with `ENGINES`, the ways in which it computes Jacobians, and the functions
`tensor`, `is_concrete`, `pull_back`, `push_forward`, `jacobian`, `rows`, `columns` (unless it has
one way alone), `measured` and `run`. It imports `functions` and `function_cache`, and nothing that
calls `running_engine()`, which returns the engine.
"""

from typing import Any

import keras


def running_engine() -> Any:
    """Imports and returns the engine for the running Keras backend, and no other.

    Raises:
        NotImplementedError: On a backend other than TensorFlow, JAX and torch.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from dann.autodiff import on_tensorflow

        return on_tensorflow
    if backend == "jax":
        from dann.autodiff import on_jax

        return on_jax
    if backend == "torch":
        from dann.autodiff import on_torch

        return on_torch
    raise NotImplementedError(
        "Derivatives need the Keras backend 'tensorflow', 'jax' or 'torch'. "
        f"Received: Keras backend {backend!r}"
    )
