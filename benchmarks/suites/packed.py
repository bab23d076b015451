"""Packed networks, beside what else runs such networks."""

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import threadpoolctl

from benchmarks.bounds import Work, bound, measured_peak, work_of_predictions
from benchmarks.rivals import is_installed, without
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.checks import check_integer, check_integers
from dann.deployment.bits import pack_bits
from dann.deployment.litert import LiteRTModel, litert_file
from dann.deployment.packed_model import PackedModel, load
from dann.deployment.packing import pack
from dann.deployment.program import Program, Step
from dann.networks import binary_label_head, binary_lenet_backbone, binary_mlp_backbone

_TURN = 2e-3  # seconds


@SUITES.register("packed", summary="Binary layers and networks, packed into bits.")
class PackedSuite:
    """Measures binary layers and networks beside their rivals, in one process.

    Everything runs in one thread, except what TensorFlow does in Keras' own row. The time includes
    packing the activations. Outputs are compared before anything is timed.

    Args:
        units: Inputs and outputs of the dense layer.
        batches: Sizes of batches for it.
        images: Sizes of batches for the network.
        channels: Channels of the convolution 3x3, in and out.
        side: Height and width of its images.
        hidden_units: Widths of the perceptron whose file is weighed.
        rounds: See `benchmarks.timing.in_turns`.
    """

    def __init__(
        self,
        units: int = 4096,
        batches: Sequence[int] = (1, 256),
        images: Sequence[int] = (1, 64),
        channels: int = 256,
        side: int = 16,
        hidden_units: Sequence[int] = (4096, 4096, 4096),
        rounds: int = 30,
    ):
        self.units = check_integer("units", units, 1)
        self.batches = check_integers("batches", batches, 1)
        self.images = check_integers("images", images, 1)
        self.channels = check_integer("channels", channels, 1)
        self.side = check_integer("side", side, 1)
        self.hidden_units = check_integers("hidden_units", hidden_units, 1)
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what each way took, by what was measured."""
        rng = np.random.default_rng(0)
        with threadpoolctl.threadpool_limits(1):
            peak = measured_peak()
            compared = [
                *(self._dense(rng, batch, peak) for batch in self.batches),
                self._convolution(rng, peak),
                *(self._lenet(rng, batch, peak) for batch in self.images),
            ]
        *others, last = compared
        told = "; ".join([last.own_remark, self._perceptron_bytes()])
        told = without(["ai_edge_litert"], told)
        return [*others, dataclasses.replace(last, own_remark=told)]

    def _perceptron_bytes(self):
        """Tells the bytes of a binary perceptron for MNIST, packed and in float32."""
        backbone = binary_mlp_backbone((28, 28, 1), self.hidden_units, input_range=(0, 255))
        head = binary_label_head(self.hidden_units[-1], 10, hidden_units=())
        model = keras.Model(backbone.input, head(backbone.output))
        with tempfile.TemporaryDirectory() as folder:
            packed = pack(model, pathlib.Path(folder) / "mlp.dann")
        floats = 4 * model.count_params()
        return (
            f"binary_mlp, {' x '.join(map(str, self.hidden_units))}: {packed:,} bytes packed, "
            f"{floats:,} in float32: {floats / packed:.1f} times"
        )

    def _dense(self, rng, batch, peak):
        kernel = rng.choice(np.array([-1, 1], "float32"), (self.units, self.units))
        inputs = rng.standard_normal((batch, self.units), "float32")
        attributes = {"fan_in": self.units}
        program = _signs_into(
            "binary_dense", (self.units,), (self.units,), pack_bits(kernel.T > 0), attributes
        )
        signs = np.where(inputs >= 0, np.float32(1), np.float32(-1))
        ways = {
            "dann, numba": self._packed(program, "numba", inputs),
            "NumPy, float32": _Way(lambda: signs @ kernel, kernel.nbytes),
        }
        task = f"dense {self.units} x {self.units}, batch {batch}"
        numbers = kernel.size + 2 * inputs.size
        least = _in_float32(Work(2 * batch * kernel.size, 4 * numbers), peak)
        return self._compared(task, ways, _same, least)

    def _packed(self, program, engine, inputs):
        model = PackedModel(program, engine)
        weights = sum(step.nbytes for step in program.steps)
        return _Way(lambda: model.predict(inputs), weights)

    def _convolution(self, rng, peak):
        shape = (self.side, self.side, self.channels)
        kernel = rng.choice(np.array([-1, 1], "float32"), (3, 3, self.channels, self.channels))
        inputs = rng.choice(np.array([-1, 1], "float32"), (1, *shape))
        attributes = {
            "input_shape": list(shape),
            "size": [3, 3],
            "strides": [1, 1],
            "dilation": [1, 1],
            "pads": [[1, 1], [1, 1]],
            "groups": 1,
            "pad_value": 0.0,
            "fan_in": 9 * self.channels,
        }
        bits = pack_bits(kernel.reshape(-1, self.channels).T > 0)
        program = _signs_into("binary_conv", shape, shape, bits, attributes)
        images = keras.Input(shape)
        layer = keras.layers.Conv2D(self.channels, 3, padding="same", use_bias=False)
        model = keras.Model(images, layer(images))
        layer.set_weights([kernel])
        ways = {
            "dann, numba": self._packed(program, "numba", inputs),
            **_litert_ways(model, inputs, inputs),
        }
        task = f"convolution 3x3, {self.channels} to {self.channels}, {self.side} x {self.side}"
        least = _in_float32(work_of_predictions([(model, 1)]), peak)
        return self._compared(task, ways, _near, least)

    def _lenet(self, rng, batch, peak):
        backbone = binary_lenet_backbone((28, 28, 1))
        head = binary_label_head(backbone.output_shape[-1], 10)
        model = keras.Model(backbone.input, head(backbone.output))
        _as_after_training(model, rng)
        examples = rng.integers(0, 256, (batch * max(1, 64 // batch), 28, 28, 1)).astype("float32")
        images = examples[:batch]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lenet.dann"
            size = pack(model, path)
            packed = {engine: load(path, engine) for engine in ("numba", "numpy")}
        floats = 4 * model.count_params()
        ways = {
            "Keras": _Way(
                lambda: keras.ops.convert_to_numpy(model(images, training=False)), floats
            ),
            "dann, numba": _Way(lambda: packed["numba"].predict(images), size),
            "dann, NumPy": _Way(lambda: packed["numpy"].predict(images), size),
            **_litert_ways(model, images, examples),
        }
        task = f"binary_lenet, {batch} image{'s' * (batch > 1)}"
        least = _in_float32(work_of_predictions([(backbone, batch), (head, batch)]), peak)
        return self._compared(task, ways, _near, least, "dann, numba")

    def _compared(self, task, ways, compare, least, reference=None):
        """Compares what the ways give, then times them."""
        outputs = {name: np.asarray(way.checked()) for name, way in ways.items()}
        first = next(iter(outputs.values()))
        notes = {
            name: f"{way.bytes:,} bytes, {compare(outputs[name], first)}"
            for name, way in ways.items()
        }
        calls = {name: way.run for name, way in ways.items()}
        times = in_turns(calls, self.rounds, _TURN)
        return Comparison(task, times, reference, notes, own_remark=least)


class _Way:
    """A function to time, the size of its weights, and what its outputs are in floats."""

    def __init__(self, run: Callable[[], Any], size: int, checked: Callable[[], Any] | None = None):
        self.run = run
        self.bytes = size
        self.checked = checked or run


def _signs_into(op, input_shape, shape, bits, attributes):
    """A program of one binary step on the signs of its inputs."""
    kernel = {"kernel_bits": bits.astype("<u8")}
    return Program(
        [
            Step("input", "input", (), input_shape, "float"),
            Step("sign", "sign", (0,), input_shape, "bits"),
            Step(op, op, (1,), shape, "int", attributes, kernel),
        ]
    )


def _as_after_training(model, rng):
    """Gives batch norms statistics that leave no sums exactly at a threshold."""
    weights: list[Any] = model.weights
    for weight in weights:
        if weight.name in ("moving_mean", "beta"):
            weight.assign(rng.uniform(-0.9, 0.9, weight.shape))
        if weight.name in ("moving_variance", "gamma"):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))


def _litert_ways(model, images, examples):
    ways: dict[str, _Way] = {}
    if not is_installed("ai_edge_litert"):
        return ways
    for name, given in (("LiteRT, float32", None), ("LiteRT, int8", examples)):
        content = litert_file(model, given, batch=len(images))
        runner = LiteRTModel(content)
        invoke = partial(runner.invoke, runner.quantized(images))
        ways[name] = _Way(invoke, len(content), partial(runner.predict, images))
    return ways


def _in_float32(work, peak):
    return bound("In float32 it", work, peak)


def _same(outputs, first):
    if not np.array_equal(outputs, first):
        raise RuntimeError("The ways that are compared do not give the same outputs")
    return "the same"


def _near(outputs, first):
    difference = float(np.abs(outputs - first).max())
    spread = float(np.ptp(first))
    return "the same" if difference == 0 else f"within {100 * difference / spread:.2g}%"
