"""One model that holds every construction, converted once for each place it is deployed to."""

import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import keras
import numpy as np
from support.constructions import CONSTRUCTIONS, INPUTS, WEIGHTS
from support.contexts import assert_close, assert_right, expected_kernel

import dann

HERE = Path(__file__).parent
WAYS = ["override", "stop_gradient", "op_override"]


def every_construction():
    for function, make in CONSTRUCTIONS.items():
        for way in WAYS:
            yield f"{function}-{way}", make(way)


class Deployments:
    """What the deployed model gives, by the name of the construction.

    Args:
        folder: Where the converted models are written.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def model(self):
        inputs = keras.Input(INPUTS.shape[1:])
        outputs = {name: made.make_layer()(inputs) for name, made in every_construction()}
        model = keras.Model(inputs, outputs)
        model(INPUTS)  # Keras exports to ONNX only what was called
        return model

    @cached_property
    def reloaded(self):
        """Values, gradients and second gradients in a process that cannot import `dann`."""
        self.model.export(self.folder / "saved", verbose=False)
        np.savez(self.folder / "data.npz", inputs=INPUTS, weights=WEIGHTS)
        return self._run("-I", HERE / "reload_saved_model.py", self.folder)

    @cached_property
    def two_devices(self):
        """First kernels after one step of `fit` on two logical CPUs."""
        return self._run(HERE / "fit_on_two_devices.py", self.folder)

    def _run(self, *arguments):
        path = os.pathsep.join([str(HERE.parent), str(Path(dann.__file__).parents[1])])
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-4000:])
        return dict(np.load(self.folder / "results.npz"))

    @cached_property
    def litert(self):
        from ai_edge_litert.interpreter import Interpreter

        path = self.folder / "model.tflite"
        self.model.export(path, format="litert", verbose=False)
        runner = Interpreter(str(path)).get_signature_runner()
        return runner(**dict.fromkeys(runner.get_input_details(), INPUTS))

    @cached_property
    def onnx(self):
        import onnxruntime

        path = self.folder / "model.onnx"
        self.model.export(path, format="onnx", verbose=False)
        session = onnxruntime.InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        values = session.run(names, {session.get_inputs()[0].name: INPUTS})
        return dict(zip(names, values, strict=True))


def two_devices(made, name, deployments):
    assert int(deployments.two_devices["replicas"]) == 2
    assert_close(deployments.two_devices[name], expected_kernel(made))


def reloaded(made, name, deployments):
    seen = deployments.reloaded
    assert_right(made, seen[f"{name}/value"], seen[f"{name}/gradient"])


def reloaded_second_order(made, name, deployments):
    assert_close(deployments.reloaded[f"{name}/second_gradient"], made.second_gradient)


def litert(made, name, deployments):
    np.testing.assert_array_equal(deployments.litert[name], made.value)


def onnx(made, name, deployments):
    np.testing.assert_array_equal(deployments.onnx[name], made.value)


DEPLOYED_CONTEXTS = {
    "Keras `fit`, `MirroredStrategy` on two devices": two_devices,
    "`export`, reloaded without this package": reloaded,
    "the same, second order": reloaded_second_order,
    "LiteRT (values only)": litert,
    "ONNX (values only)": onnx,
}
