"""Packed networks, compared with LiteRT."""

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

from benchmarks.timing import Comparison, time_in_turns
from dann.deployment import load, pack, runtime
from dann.layers import BinaryConv2D, BinaryDense
from dann.networks import binary_label_head, binary_lenet_backbone

_TURN = 2e-3  # seconds


def _lenet():
    backbone = binary_lenet_backbone((28, 28, 1))
    head = binary_label_head(backbone.output_shape[-1], 10)
    return keras.Model(backbone.input, head(backbone.output))


def _binarynet():
    """Returns the CIFAR-10 network of Hubara et al."""
    inputs = keras.Input((32, 32, 3))
    x = layers.Rescaling(1 / 127.5, -1)(inputs)
    for index, filters in enumerate((128, 128, 256, 256, 512, 512)):
        sign: Any = {"input_estimator": None} if index == 0 else {}
        x = BinaryConv2D(filters, 3, padding="same", use_bias=False, **sign)(x)
        x = layers.MaxPooling2D()(x) if index % 2 else x
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


def measure_packed(settings: Any) -> list[Comparison]:
    """Measures packed networks and LiteRT on one image in one thread.

    The time includes packing the activations. The notes contain the size of each file in bytes and
    the largest difference of its logits from Keras.

    Args:
        settings: `rounds`; see `benchmarks.timing.time_in_turns`.
    """
    with threadpool_limits(1):
        return [_compare(name, make(), settings.rounds) for name, make in NETWORKS.items()]


def _compare(name, model, rounds):
    rng = np.random.default_rng(0)
    _randomize_statistics(model, rng)
    examples = rng.integers(0, 256, (64, *model.input_shape[1:])).astype("float32")
    image = examples[:1]
    expected = np.asarray(model.predict(image, verbose=0))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.dann"
        size = pack(model, path)
        packed = {"dann, C": load(path), "dann, NumPy": runtime.load(path)}
    programs, notes = {}, {}
    for program, network in packed.items():
        programs[program] = partial(network.predict, image)
        notes[program] = _format_note(size, network.predict(image), expected)
    for program, calibration in (("LiteRT, float32", None), ("LiteRT, int8", examples)):
        content = _convert_to_litert(model, calibration)
        programs[program], outputs = _run_litert(content, image)
        notes[program] = _format_note(len(content), outputs, expected)
    return Comparison(name, time_in_turns(programs, rounds, _TURN), notes=notes)


def _randomize_statistics(model, rng):
    """Sets batch normalization statistics so that no sum is exactly at a threshold."""
    for weight in model.weights:
        if weight.name in ("moving_mean", "beta"):
            weight.assign(rng.uniform(-0.9, 0.9, weight.shape))
        if weight.name in ("moving_variance", "gamma"):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))


def _convert_to_litert(model, examples):
    """Converts a model with one input to LiteRT; examples calibrate 8-bit integers."""
    import tensorflow as tf

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    signature = [keras.InputSpec(shape=(1, *model.input_shape[1:]), dtype="float32")]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # deprecation of TensorFlow's converter
        model.export(folder, verbose=False, input_signature=signature)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if examples is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([example[None]] for example in examples)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        return converter.convert()


def _run_litert(content, image):
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


def _format_note(size, outputs, expected):
    error = 100 * float(np.abs(outputs - expected).max()) / float(np.ptp(expected))
    return f"{size:,} bytes, within {error:.2g}% of Keras"
