"""Jacobians of networks, beside a tape's own."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.arguments import chosen
from benchmarks.bounds import bound, measured_peak, work_of_jacobian
from benchmarks.rivals import is_installed, without
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.checks import check_integer, check_number

_ITERATED, _EXACT = "dann, singular_values", "tape.batch_jacobian and SVD"
_CHUNK = 64  # outputs that PyTorch takes at a time
WAYS = (
    "dann, batch_jacobian",
    "tape.batch_jacobian, pfor",
    "tape.batch_jacobian, while",
    "tape.jacobian",
    "dann, frobenius_norm",
    _ITERATED,
    _EXACT,
    "tape.batch_jacobian and Gram matrix",
    "JAX, vmap of jacrev",
    "torch.func, vmap of jacrev",
)


@SUITES.register("jacobian", summary="Jacobians of networks, beside a tape's own.")
class JacobianSuite:
    """Measures `dann.autodiff`, on TensorFlow, and plain `tf.GradientTape` on networks' Jacobians.

    Every plain way is a `tf.function`. A way that needs more than the budget is left out, and so
    is a rival that is not installed; JAX's is compiled, PyTorch's works in chunks.

    Args:
        networks: Keras models by name, each with one input and one output.
        batch_sizes: Numbers of examples.
        k: Number of singular values; networks with fewer are measured without.
        rounds: See `benchmarks.timing.in_turns`.
        seconds: The same.
        memory_budget: Bytes, of the ways that are measured, as estimated from the shapes.
        only: Names of the ways to measure, for batches at which some take minutes. Defaults to
            `None`: all.
    """

    def __init__(
        self,
        networks: Mapping[str, keras.Model],
        batch_sizes: Sequence[int] = (1, 4, 16, 64, 256),
        k: int = 20,
        rounds: int = 5,
        seconds: float = 0.1,
        memory_budget: int = 2**30,
        only: Sequence[str] | None = None,
    ):
        if not networks or not batch_sizes:
            raise ValueError(
                "`networks` and `batch_sizes` must each hold at least one. Received: "
                f"{list(networks)}, {list(batch_sizes)}"
            )
        self.networks = dict(networks)
        for name, network in self.networks.items():
            if not isinstance(network, keras.Model):
                raise TypeError(
                    f"`networks` must be Keras models. Received: {name}, which is {network!r}"
                )
        self.batch_sizes = [check_integer("batch_sizes", size, 1) for size in batch_sizes]
        self.k = check_integer("k", k, 1)
        self.rounds = check_integer("rounds", rounds, 1)
        self.seconds = check_number("seconds", seconds, 0)
        self.memory_budget = check_integer("memory_budget", memory_budget, 1)
        self.only = chosen(only, WAYS)

    def measure(self) -> list[Comparison]:
        """Returns what each way took, for each network and batch size."""
        peak = measured_peak()
        comparisons = []
        for name, network in self.networks.items():
            for batch in self.batch_sizes:
                images = np.random.default_rng(0).uniform(size=(batch, *network.input_shape[1:]))
                ways = self.ways(network, keras.ops.convert_to_tensor(images, "float32"))
                times = in_turns(ways, self.rounds, self.seconds)
                least = bound("Reverse mode", work_of_jacobian(network, batch), peak)
                told = without(["jax", "torch"], least)
                task = f"{name}, batch {batch}"
                comparisons.append(Comparison(task, times, notes=_errors(ways), own_remark=told))
        return comparisons

    def ways(self, network: keras.Model, x: Any) -> dict[str, Callable[[], Any]]:
        """Returns what is compared, by name: functions that compute the whole of it."""
        inputs, outputs = math.prod(x.shape[1:]), math.prod(network.output_shape[1:])
        largest = x.shape[0] * max(math.prod(layer.output.shape[1:]) for layer in network.layers)
        result = 12 * x.shape[0] * inputs * outputs
        fits = {
            "pfor": max(result, 12 * outputs * largest) <= self.memory_budget,
            "while": result + 24 * largest <= self.memory_budget,
        }
        ways: dict[str, Callable] = {}
        if fits["while"]:
            ways["dann, batch_jacobian"] = partial(batch_jacobian, network, x)
        for engine in fits:
            if fits[engine]:
                ways[f"tape.batch_jacobian, {engine}"] = partial(by_tape(network, engine), x)
        if 12 * x.shape[0] * outputs * largest <= self.memory_budget:
            ways["tape.jacobian"] = partial(by_tape(network), x)
            ways |= _of_rivals(network, np.asarray(x))
        ways["dann, frobenius_norm"] = partial(frobenius_norm, network, x)
        if self.k <= min(inputs, outputs):
            ways[_ITERATED] = partial(singular_values, network, x, self.k)
            if fits["while"]:
                tape = by_tape(network, "while")
                ways[_EXACT] = lambda: _by_svd(tape(x))[:, : self.k]
                ways["tape.batch_jacobian and Gram matrix"] = lambda: _by_gram(tape(x))[:, : self.k]
        return {name: way for name, way in ways.items() if name in self.only}


def _of_rivals(network, x):
    """The Jacobians of JAX if it is installed, and of PyTorch if its compiler is imported."""
    ways = {}
    if is_installed("jax"):
        import jax  # pyright: ignore[reportMissingImports]

        from benchmarks.rivals.jax_twin import jax_twin

        twin = jax_twin(network)
        compiled = jax.jit(jax.vmap(jax.jacrev(lambda row: twin(row[None])[0])))
        inputs = jax.numpy.asarray(x)
        ways["JAX, vmap of jacrev"] = lambda: compiled(inputs).block_until_ready()
    if "torch._dynamo" in sys.modules:
        import torch  # pyright: ignore[reportMissingImports]

        from benchmarks.rivals.torch_twin import torch_twin

        module = torch_twin(network).eval().requires_grad_(False)
        images = torch.tensor(np.moveaxis(x, -1, 1) if x.ndim == 4 else x)
        jacobian = torch.func.jacrev(lambda row: module(row[None])[0], chunk_size=_CHUNK)
        ways["torch.func, vmap of jacrev"] = partial(torch.func.vmap(jacobian), images)
    return ways


def by_tape(network: keras.Model, engine: str | None = None) -> Callable[[Any], Any]:
    """Returns a `tf.function` around a tape's Jacobian, as it is commonly written.

    That is `tape.batch_jacobian` with an engine, `"pfor"` or `"while"`, and else `tape.jacobian`.
    """

    @tf.function(autograph=False)
    def compute(x):
        with tf.GradientTape(persistent=engine == "while") as tape:
            tape.watch(x)
            y = network(x, training=False)
        if engine is None:
            return tape.jacobian(y, x)
        return tape.batch_jacobian(y, x, experimental_use_pfor=engine == "pfor")

    return compute


def _errors(ways):
    """How far the singular values are from the exact ones, where these are measured, too."""
    if not {_ITERATED, _EXACT} <= ways.keys():
        return {}
    found, exact = (np.asarray(ways[name]()) for name in (_ITERATED, _EXACT))
    return {_ITERATED: f"all within {100 * np.abs(found / exact - 1).max():.2g}%"}


def _by_svd(matrices):
    return tf.linalg.svd(_flat(matrices), compute_uv=False)


def _by_gram(matrices):
    """The singular values by the eigenvalues of the smaller of `J J^T` and `J^T J`."""
    flat = _flat(matrices)
    wide = flat.shape[1] <= flat.shape[2]
    gram = tf.matmul(flat, flat, transpose_a=not wide, transpose_b=wide)
    return tf.sqrt(tf.maximum(tf.linalg.eigvalsh(gram), 0))[:, ::-1]


def _flat(matrices):
    return tf.reshape(matrices, (matrices.shape[0], matrices.shape[1], -1))
