"""Trains methods on logical devices that share the weights; run by `test_shared_weights.py`.

Devices are split before the backend starts, hence a process of its own.
"""

import json
import pathlib
import sys
import tempfile

import jax
import keras
import numpy as np
from train_on_devices import CASES, LABELS, SOURCE, STEPS, Case, flat, made

from dann.adaptation import DANN
from dann.adaptation.shared_weights import SplitWeights
from dann.networks import application_backbone, mnist_backbone
from dann.training import fit


def of_images(backbone, *layers):
    """DANN with a backbone of images, which layers make of the vectors."""
    size = backbone.input_shape[1] // 2
    enlarge = [keras.layers.Reshape((2, 2, 1)), keras.layers.UpSampling2D(size)]
    colour = [keras.layers.Conv2D(3, 1), keras.layers.Rescaling(50.0, 128.0)]
    layers = layers or (*enlarge, *colour)
    return DANN(keras.Sequential([keras.Input((4,)), *layers, backbone]), num_classes=3)


def of_dense_images():
    """DANN with maps of dense outputs, of which XLA miscompiles evaluations by several groups."""
    layers = [keras.layers.Dense(16 * 16 * 3), keras.layers.Reshape((16, 16, 3))]
    return of_images(mnist_backbone((16, 16, 3)), *layers)


def mobile_net():
    return of_images(application_backbone((32, 32, 3), "MobileNetV2", alpha=0.35))


CASES |= {
    "convolutions": Case(of_dense_images, optimizer={"momentum": 0.9, "use_ema": True}),
    # so many layers of normalization make rounding errors large, even more so after long steps
    "application": Case(mobile_net, optimizer={"global_clipnorm": 0.01}),
}


class Watch(keras.callbacks.Callback):
    """Computes with the model after each step and epoch, and assigns to it after the epoch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.model.jax_state_sync()
        self._look()

    def on_epoch_end(self, epoch, logs=None):
        self._look()
        weight = self.model.trainable_variables[0]
        weight.assign(0.9 * weight)

    def _look(self):
        self.seen.append(float(np.mean(np.square(self.model(SOURCE[:7])))))


def fitted(case, distribution=None):
    """Weights, logs, scores, and what a device holds of each variable, after steps of `fit`."""
    keras.distribution.set_distribution(distribution)
    model, pairs = made(case)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"epochs": 1, "steps_per_epoch": STEPS, "verbose": 0}
        logs = fit(model, pairs, folder, callbacks=[watch], every=2, **settings).history
    weights = flat(model)
    scores = model.evaluate(SOURCE[:7], LABELS[:7], verbose=0, return_dict=True)
    scores["predicted"] = float(np.mean(np.square(model.predict(SOURCE[:7], verbose=0))))
    scores |= {f"seen {k}": value for k, value in enumerate(watch.seen)}
    everything = [*model.variables, *model.optimizer.variables]
    held = [[v.path, *parts(v)] for v in everything]
    return weights, {name: values[-1] for name, values in logs.items()}, scores, held


def parts(variable):
    """The shape of a variable and that of the part which each device holds."""
    (part,) = {shard.data.shape for shard in variable.value.addressable_shards}
    return variable.value.shape, part


def main(folder, groups, names):
    jax.config.update("jax_num_cpu_devices", max(count for count, _ in groups))
    weights, found = {}, {}
    for name in names:
        for count, size in [(0, 1), *groups]:
            key = f"{name}/{count}/{size}"
            devices = keras.distribution.list_devices("cpu")[:count]
            distribution = SplitWeights(devices, size) if count else None
            weights[key], *found[key] = fitted(CASES[name], distribution)
    np.savez(folder / "weights.npz", **weights)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
