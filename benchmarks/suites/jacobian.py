"""Jacobians of networks, beside a tape's own."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.timing import Comparison, in_turns
from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.networks import mnist_backbone

_ITERATED, _EXACT = "dann, singular_values", "tape.batch_jacobian and SVD"


def networks() -> dict[str, keras.Model]:
    """Returns a perceptron with 10 outputs, and the DANN paper's network with 768 features."""
    dense = keras.layers.Dense
    layers = [keras.Input((784,)), dense(256, "relu"), dense(256, "relu"), dense(10)]
    return {"mlp": keras.Sequential(layers), "cnn": mnist_backbone(input_range=(0, 1))}


def jacobians(settings: Any, batch_sizes: Sequence[int] = (1, 16, 64)) -> list[Comparison]:
    """Measures `dann.autodiff` and plain `tf.GradientTape` on networks' Jacobians.

    Every plain way is a `tf.function`. `k` singular values are computed, as many as the network
    has outputs, but at most 20.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.in_turns`.
        batch_sizes: Numbers of examples.
    """
    comparisons = []
    for name, network in networks().items():
        for size in batch_sizes:
            images = np.random.default_rng(0).uniform(size=(size, *network.input_shape[1:]))
            ways = ways_of(network, keras.ops.convert_to_tensor(images, "float32"))
            found, exact = (np.asarray(ways[way]()) for way in (_ITERATED, _EXACT))
            error = 100 * np.abs(found / exact - 1).max()
            times = in_turns(ways, settings.rounds, settings.seconds)
            notes = {_ITERATED: f"all within {error:.2g}%"}
            comparisons.append(Comparison(f"{name}, batch {size}", times, notes=notes))
    return comparisons


def ways_of(network: keras.Model, x: Any) -> dict[str, Callable[[], Any]]:
    """Returns what is compared, by name: functions that compute the whole of it."""
    k = min(20, network.output_shape[-1])
    loop = by_tape(network, "while")
    return {
        "dann, batch_jacobian": partial(batch_jacobian, network, x),
        "tape.batch_jacobian, pfor": partial(by_tape(network, "pfor"), x),
        "tape.batch_jacobian, while": partial(loop, x),
        "dann, frobenius_norm": partial(frobenius_norm, network, x),
        _ITERATED: partial(singular_values, network, x, k),
        _EXACT: lambda: _by_svd(loop(x))[:, :k],
    }


def by_tape(network: keras.Model, engine: str) -> Callable[[Any], Any]:
    """Returns a `tf.function` around `tape.batch_jacobian` with an engine, as commonly written."""

    @tf.function(autograph=False)
    def compute(x):
        with tf.GradientTape(persistent=engine == "while") as tape:
            tape.watch(x)
            y = network(x, training=False)
        return tape.batch_jacobian(y, x, experimental_use_pfor=engine == "pfor")

    return compute


def _by_svd(matrices):
    flat = tf.reshape(matrices, (matrices.shape[0], matrices.shape[1], -1))
    return tf.linalg.svd(flat, compute_uv=False)
