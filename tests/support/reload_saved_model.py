"""Differentiates a SavedModel in a process that cannot import `dann`; run by `deployments.py`."""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf


def value_and_gradients(serve, inputs, weights):
    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = serve(inputs)
            loss = tf.reduce_sum(weights * (value + value**2 / 2.0))
        gradient = tape.gradient(loss, inputs)
    return value, gradient, outer.gradient(gradient, inputs)


def main(folder):
    data = np.load(folder / "data.npz")
    inputs = tf.constant(data["inputs"])
    loaded = tf.saved_model.load(folder / "saved")
    results = {}
    for name in loaded.serve(inputs):
        found = value_and_gradients(
            lambda x, name=name: loaded.serve(x)[name], inputs, data["weights"]
        )
        for quantity, array in zip(("value", "gradient", "second_gradient"), found, strict=True):
            results[f"{name}/{quantity}"] = array
    np.savez(folder / "results.npz", **results)


def refuse_the_package():
    """Makes `import dann` fail, however the package is installed."""
    if "dann" in sys.modules:
        sys.exit("This process has imported the package already.")
    sys.modules["dann"] = None


if __name__ == "__main__":
    refuse_the_package()
    main(Path(sys.argv[1]))
