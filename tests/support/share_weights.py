"""Trains methods on logical devices that share the weights; run by `test_shared_weights.py`.

Devices are split before the backend starts, hence a process of its own.
"""

import json
import pathlib
import sys

import jax
import keras
import numpy as np
from train_on_devices import CASES, STEPS, Case, flat, made

from dann.adaptation import DANN
from dann.networks import application_backbone, mnist_backbone
from dann.training.layouts import SplitWeights


def of_images(backbone):
    """The case of a backbone of images, which a layer makes of the vectors."""
    shape = backbone.input_shape[1:]
    make = [keras.layers.Dense(int(np.prod(shape))), keras.layers.Reshape(shape)]
    network = keras.Sequential([keras.Input((4,)), *make, keras.layers.Rescaling(50.0, 128.0)])
    network.add(backbone)
    return DANN(network, num_classes=3)


def application(name, **options):
    return lambda: of_images(application_backbone((32, 32, 3), name, **options))


CASES |= {
    "momentum": Case(CASES["dann"].model, optimizer={"momentum": 0.9}),
    "convolutions": Case(lambda: of_images(mnist_backbone((16, 16, 3)))),
    "MobileNetV2": Case(application("MobileNetV2", alpha=0.35)),
    "ResNet50": Case(application("ResNet50")),
}


def fitted(case, distribution=None):
    """Weights, logs, and what a device holds of each variable, after some steps of `fit`."""
    keras.distribution.set_distribution(distribution)
    model, pairs = made(case)
    logs = model.fit(pairs, epochs=1, steps_per_epoch=STEPS, verbose=0).history
    everything = [*model.variables, *model.optimizer.variables]
    held = {f"{k} {v.path}": parts(v) for k, v in enumerate(everything)}
    return flat(model), {name: values[-1] for name, values in logs.items()}, held


def parts(variable):
    """The shape of a variable and that of the part which each device holds."""
    (part,) = {shard.data.shape for shard in variable.value.addressable_shards}
    return variable.value.shape, part


def main(folder, groups, names):
    jax.config.update("jax_num_cpu_devices", max(count for count, _ in groups))
    weights, logs, held = {}, {}, {}
    for name in names:
        for count, size in [(0, 1), *groups]:
            key = f"{name}/{count}/{size}"
            devices = keras.distribution.list_devices("cpu")[:count]
            distribution = SplitWeights(devices, size) if count else None
            weights[key], logs[key], held[key] = fitted(CASES[name], distribution)
    np.savez(folder / "weights.npz", **weights)
    (folder / "logs.json").write_text(json.dumps(logs))
    (folder / "held.json").write_text(json.dumps(held))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
