"""Writes classifiers as LiteRT files, in float32 or 8-bit integers, and runs them."""

import contextlib
import logging
import tempfile
import warnings
from typing import Any

import keras
import numpy as np


def litert_file(model: keras.Model, images: np.ndarray | None = None, batch: int = 1) -> bytes:
    """Converts a classifier to a LiteRT file.

    Args:
        model: Model of one input and one output.
        images: Inputs `(n, ...)` that decide the ranges of 8-bit integers, for weights,
            activations, inputs and outputs. With `None` (default) all stays float32.
        batch: How many inputs the file takes at a time. Defaults to `1`.
    """
    import tensorflow as tf

    signature = [keras.InputSpec(shape=(batch, *model.input_shape[1:]), dtype="float32")]
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False, input_signature=signature)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if images is not None:
            parts = _batches(np.asarray(images, "float32"), batch)
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([part] for part in parts)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        return converter.convert()


class LiteRTModel:
    """A LiteRT file in its interpreter.

    Args:
        content: The file's content.
        threads: Threads of the interpreter. Defaults to `1`.

    Raises:
        ImportError: If ai-edge-litert is not installed.
    """

    def __init__(self, content: bytes, threads: int = 1):
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise ImportError(
                f"ai-edge-litert runs LiteRT files: `pip install ai-edge-litert`. Received: {error}"
            ) from error
        self.interpreter = Interpreter(model_content=content, num_threads=threads)
        self.interpreter.allocate_tensors()
        (self._input,) = self.interpreter.get_input_details()
        (self._output,) = self.interpreter.get_output_details()

    def quantized(self, inputs: np.ndarray) -> np.ndarray:
        """Returns inputs in the type that the file takes."""
        return _to_integers(np.asarray(inputs, "float32"), self._input)

    def invoke(self, batch: np.ndarray) -> Any:
        """Runs as many inputs as the file takes, in the type that it takes."""
        self.interpreter.set_tensor(self._input["index"], batch)
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self._output["index"])

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the outputs `(n, ...)` of `inputs` `(n, ...)`, both as floats.

        Raises:
            ValueError: If `n` is not a multiple of what the file takes at a time.
        """
        parts = _batches(self.quantized(inputs), int(self._input["shape"][0]))
        outputs = [self.invoke(part) for part in parts]
        shape = tuple(self._output["shape"][1:])
        values = np.concatenate(outputs) if outputs else np.zeros((0, *shape), "float32")
        scale, zero = self._output["quantization"]
        return (values.astype("float32") - zero) * np.float32(scale) if scale else values


def _batches(inputs, batch):
    if len(inputs) % batch:
        raise ValueError(f"Expected a multiple of {batch} inputs. Received: {len(inputs)}")
    return [inputs[start : start + batch] for start in range(0, len(inputs), batch)]


def _to_integers(values, details):
    scale, zero = details["quantization"]
    if not scale:
        return values
    limits = np.iinfo(details["dtype"])
    return np.clip(np.round(values / scale) + zero, limits.min, limits.max).astype(details["dtype"])


@contextlib.contextmanager
def _quiet():
    """Silences TensorFlow's notes that its converter will move, and where it saves."""
    logger, before = logging.getLogger("tensorflow"), logging.getLogger("tensorflow").level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
