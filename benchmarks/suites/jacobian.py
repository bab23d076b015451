"""Jacobians of networks, compared with `tf.GradientTape`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.timing import Comparison, time_in_turns
from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.networks import mnist_backbone

_ITERATED, _EXACT = "dann, singular_values", "tape.batch_jacobian and SVD"


def make_networks() -> dict[str, keras.Model]:
    """Returns a perceptron with 10 outputs, and the DANN paper's network with 768 features."""
    dense = keras.layers.Dense
    layers = [keras.Input((784,)), dense(256, "relu"), dense(256, "relu"), dense(10)]
    return {"mlp": keras.Sequential(layers), "cnn": mnist_backbone(input_range=(0, 1))}


def measure_jacobians(settings: Any, batch_sizes: Sequence[int] = (1, 16, 64)) -> list[Comparison]:
    """Measures `dann.autodiff` and plain `tf.GradientTape` on Jacobians of networks.

    Each plain program is a `tf.function`. The number `k` of singular values is the number of
    outputs, but at most 20.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.time_in_turns`.
        batch_sizes: Numbers of examples.
    """
    comparisons = []
    for network_name, network in make_networks().items():
        for size in batch_sizes:
            images = np.random.default_rng(0).uniform(size=(size, *network.input_shape[1:]))
            programs = make_programs(network, keras.ops.convert_to_tensor(images, "float32"))
            values, exact = (np.asarray(programs[name]()) for name in (_ITERATED, _EXACT))
            error = 100 * np.abs(values / exact - 1).max()
            times = time_in_turns(programs, settings.rounds, settings.seconds)
            notes = {_ITERATED: f"all within {error:.2g}%"}
            comparisons.append(Comparison(f"{network_name}, batch {size}", times, notes=notes))
    return comparisons


def make_programs(network: keras.Model, x: Any) -> dict[str, Callable[[], Any]]:
    """Returns the programs by name."""
    k = min(20, network.output_shape[-1])
    loop = tape_jacobian(network, "while")
    return {
        "dann, batch_jacobian": partial(batch_jacobian, network, x),
        "tape.batch_jacobian, pfor": partial(tape_jacobian(network, "pfor"), x),
        "tape.batch_jacobian, while": partial(loop, x),
        "dann, frobenius_norm": partial(frobenius_norm, network, x),
        _ITERATED: partial(singular_values, network, x, k),
        _EXACT: lambda: _singular_values_by_svd(loop(x))[:, :k],
    }


def tape_jacobian(network: keras.Model, engine: str) -> Callable[[Any], Any]:
    """Returns a `tf.function` that calls `tape.batch_jacobian` with an engine."""

    @tf.function(autograph=False)
    def compute(x):
        with tf.GradientTape(persistent=engine == "while") as tape:
            tape.watch(x)
            y = network(x, training=False)
        return tape.batch_jacobian(y, x, experimental_use_pfor=engine == "pfor")

    return compute


def _singular_values_by_svd(matrices):
    flat = tf.reshape(matrices, (matrices.shape[0], matrices.shape[1], -1))
    return tf.linalg.svd(flat, compute_uv=False)
