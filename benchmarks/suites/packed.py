"""Packed networks, beside what else runs such networks."""

import logging
import pathlib
import tempfile
import warnings
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers
from threadpoolctl import threadpool_limits

from benchmarks.timing import Comparison, in_turns
from dann.deployment import load, pack, runtime
from dann.layers import BinaryConv2D, BinaryDense
from dann.networks import binary_label_head, binary_lenet_backbone

_TURN = 2e-3  # seconds


def _lenet():
    backbone = binary_lenet_backbone((28, 28, 1))
    head = binary_label_head(backbone.output_shape[-1], 10)
    return keras.Model(backbone.input, head(backbone.output))


def _binarynet():
    """The network of Hubara et al. for CIFAR-10."""
    inputs = keras.Input((32, 32, 3))
    x = layers.Rescaling(1 / 127.5, -1)(inputs)
    for place, filters in enumerate((128, 128, 256, 256, 512, 512)):
        sign: Any = {"input_estimator": None} if place == 0 else {}
        x = BinaryConv2D(filters, 3, padding="same", use_bias=False, **sign)(x)
        x = layers.MaxPooling2D()(x) if place % 2 else x
        x = layers.BatchNormalization()(x)
    x = layers.Flatten()(x)
    for units in (1024, 1024, 10):
        x = layers.BatchNormalization()(BinaryDense(units, use_bias=False)(x))
    return keras.Model(inputs, x)


def _dense():
    return keras.Sequential([keras.Input((4096,)), BinaryDense(4096, use_bias=False)])


def _convolution():
    layer = BinaryConv2D(128, 3, padding="same", use_bias=False)
    return keras.Sequential([keras.Input((32, 32, 128)), layer])


NETWORKS = {
    "binary_lenet": _lenet,
    "BinaryNet": _binarynet,
    "dense 4096": _dense,
    "convolution 3x3, 128 to 128, 32 x 32": _convolution,
}


def packed_networks(settings: Any) -> list[Comparison]:
    """Measures packed networks on one image in one thread, beside LiteRT.

    The time includes packing the activations. The notes have the bytes of each file, and how far
    its logits are from Keras's.

    Args:
        settings: `rounds`; see `benchmarks.timing.in_turns`.
    """
    with threadpool_limits(1):
        return [_compared(name, make(), settings.rounds) for name, make in NETWORKS.items()]


def _compared(name, model, rounds):
    rng = np.random.default_rng(0)
    _as_after_training(model, rng)
    examples = rng.integers(0, 256, (64, *model.input_shape[1:])).astype("float32")
    image = examples[:1]
    expected = np.asarray(model.predict(image, verbose=0))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.dann"
        size = pack(model, path)
        packed = {"dann, C": load(path), "dann, NumPy": runtime.load(path)}
    ways: dict[str, Any] = {way: partial(one.predict, image) for way, one in packed.items()}
    outputs = {way: one.predict(image) for way, one in packed.items()}
    sizes = dict.fromkeys(packed, size)
    for way, given in (("LiteRT, float32", None), ("LiteRT, int8", examples)):
        content = _litert_file(model, given)
        ways[way], outputs[way] = _litert(content, image)
        sizes[way] = len(content)
    notes = {way: f"{sizes[way]:,} bytes, {_near(outputs[way], expected)}" for way in ways}
    return Comparison(name, in_turns(ways, rounds, _TURN), notes=notes)


def _as_after_training(model, rng):
    """Gives batch norms statistics that leave no sums exactly at a threshold."""
    for weight in model.weights:
        if weight.name in ("moving_mean", "beta"):
            weight.assign(rng.uniform(-0.9, 0.9, weight.shape))
        if weight.name in ("moving_variance", "gamma"):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))


def _litert_file(model, examples):
    """Converts a model of one input to LiteRT; examples decide the ranges of 8-bit integers."""
    import tensorflow as tf

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    signature = [keras.InputSpec(shape=(1, *model.input_shape[1:]), dtype="float32")]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # TensorFlow's converter will move
        model.export(folder, verbose=False, input_signature=signature)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if examples is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([one[None]] for one in examples)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        return converter.convert()


def _litert(content, image):
    """Returns the function that runs a file on the image, and its outputs as floats."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    (entry,), (exit,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero = entry["quantization"]
    if scale:
        image = np.clip(np.round(image / scale) + zero, -128, 127).astype("int8")

    def run():
        interpreter.set_tensor(entry["index"], image)
        interpreter.invoke()
        return interpreter.get_tensor(exit["index"])

    scale, zero = exit["quantization"]
    return run, (run().astype("float32") - zero) * scale if scale else run()


def _near(outputs, expected):
    difference = float(np.abs(outputs - expected).max())
    return f"within {100 * difference / float(np.ptp(expected)):.2g}% of Keras"
