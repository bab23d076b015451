"""Modes in which a function of tensors runs: eager, in a graph, and with XLA."""

import keras
import pytest
from support.differentiate import BACKEND, compile_function


def run_in_mode(function, mode):
    if BACKEND == "torch":
        return lambda *args: keras.tree.map_structure(lambda t: t.detach(), function(*args))
    return compile_function(function, {"eager": False, "graph": True, "xla": "xla"}[mode])


# JAX has one way to compile; torch always runs eagerly.
EAGER, XLA = (pytest.param(mode, marks=pytest.mark.tensorflow) for mode in ("eager", "xla"))
parametrize_mode = pytest.mark.parametrize("mode", [EAGER, "graph", XLA])
