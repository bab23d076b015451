"""Trains methods on several logical devices, or in one of several processes.

    python -m support.train_on_devices devices <numbers of devices> <names>
    python -m support.train_on_devices machines <folder> <names> <distribution> <steps to death>

Devices are split before the backend starts, hence a process of its own. Both print weights and
logs. With several processes, each writes its checkpoints into the folder.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import signal
import sys
from collections.abc import Callable

import keras
import numpy as np
from support.small_methods import CLASSES, build_small_model

import dann
from dann.adaptation import DANN, MDAN
from dann.adaptation.prediction import final_weights, predict
from dann.adaptation.regularizers.regularizer import REGULARIZERS
from dann.networks import mlp_backbone
from dann.training import fit
from dann.training.devices import Distribution, get_process_position
from dann.training.preparation import start

BATCH, STEPS, RATE = 12, 3, 0.1
RNG = np.random.default_rng(0)
SOURCE = RNG.normal(size=(24, 4)).astype("float32")
TARGET = SOURCE[::-1] * [1.5, -1, 1, 0.5] + 0.5
LABELS = RNG.integers(0, 3, 24)
LABELLED = RNG.normal(size=(12, 4)).astype("float32"), RNG.integers(0, 3, 12), np.ones(12)
WEIGHTS = RNG.uniform(0.1, 2, 24)


@dataclasses.dataclass
class Case:
    """A model, and further arguments of its pairs and its optimizer."""

    model: Callable
    pairs: dict = dataclasses.field(default_factory=dict)
    optimizer: dict = dataclasses.field(default_factory=dict)
    has_weights: bool = False


def backbone(*layers):
    """Builds a backbone with further layers after the hidden layer."""
    if not layers:
        return mlp_backbone((4,), hidden_units=(6,))
    hidden = keras.layers.Dense(6, activation="tanh")
    return keras.Sequential([keras.Input((4,)), hidden, *layers])


def plain_model(*layers, **options):
    return DANN(backbone(*layers), num_classes=3, **options)


def regularizer_model(name):
    arguments = {"vat": {"seed": 1}, "self_ensembling": {"threshold": 0.0}}.get(name, {})
    needs = REGULARIZERS.metadata[name].get("example_arguments", {})
    regularizer = REGULARIZERS[name](weight=1.0, **needs, **arguments)
    # At strength 0.1 a ReLU of VAT's domain head is 0 up to rounding in the third step.
    return plain_model(strength=1.0, regularizers=[regularizer])


def augmented():
    noise = {name: [keras.layers.GaussianNoise(0.5, seed=1)] for name in ("source", "target")}
    return plain_model(augmentation=noise)


def layered():
    """Builds DANN with state that processes must share: statistics and noise."""
    return plain_model(keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1))


CASES = {name: Case(functools.partial(build_small_model, name)) for name in sorted(CLASSES)}
for _name in sorted(REGULARIZERS):
    CASES[f"{_name} (regularizer)"] = Case(functools.partial(regularizer_model, _name))
CASES |= {
    "batch normalization": Case(lambda: plain_model(keras.layers.BatchNormalization())),
    "augmentation": Case(augmented),
    "layers with state": Case(layered),
    "dropout": Case(lambda: plain_model(keras.layers.Dropout(0.5, seed=1))),
    "labeled target": Case(plain_model, {"target_labeled": LABELLED}, has_weights=True),
    "several sources": Case(
        lambda: MDAN(backbone(), num_classes=3, num_sources=2), {"source_domain": np.arange(24) % 2}
    ),
    "averaged weights": Case(plain_model, optimizer={"use_ema": True, "ema_momentum": 0.5}),
    "clipped": Case(plain_model, optimizer={"global_clipnorm": 0.05}),
    "accumulated": Case(plain_model, optimizer={"gradient_accumulation_steps": 2}),
}
REFUSED = {"clipped", "accumulated"}  # with several devices, on TensorFlow
# On TensorFlow these cases compute statistics of a replica's part instead of the whole batch, or
# draw the same noise for each part. `docs/running.md` lists them.
PER_REPLICA = {
    *("cdan_e", "daln", "wdgrl", "dirt_t", "batch normalization", "augmentation", "dropout"),
    *("layers with state", "several sources"),
    *(f"{name} (regularizer)" for name in ("coral", "mcc", "self_ensembling", "vat")),
}


def build_case(case, momentum=0.0, **part):
    """Returns the compiled model, with the same weights at each call, and its pairs."""
    keras.utils.set_random_seed(1)
    model = case.model()
    optimizer = keras.optimizers.SGD(RATE, momentum=momentum, **case.optimizer)
    model.compile(optimizer, metrics=["accuracy"])
    source = (SOURCE, LABELS, *([WEIGHTS] if case.has_weights else []))
    arguments = {"batch_size": BATCH, "seed": 3, "repeat": True, **case.pairs, **part}
    return model, dann.data.pair(source, TARGET.astype("float32"), **arguments)


def fit_case(case):
    """Returns weights and logs after some steps of `fit`."""
    model, pairs = build_case(case)
    logs = model.fit(pairs, epochs=1, steps_per_epoch=STEPS, verbose=0).history
    return list_weights(model), {name: values[-1] for name, values in logs.items()}


def list_weights(model):
    """Returns all weights in one list."""
    return np.concatenate([w.astype("float64").ravel() for w in model.get_weights()]).tolist()


def logical_devices(count):
    """Splits the processor; returns a function from a number of devices to a scope."""
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_num_cpu_devices", count)

        def scope(number):
            devices = keras.distribution.list_devices("cpu")[:number]
            return keras.distribution.DataParallel(devices=devices).scope()

        return scope
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, logical)
    reduction = tf.distribute.ReductionToOneDevice()  # collectives allow one strategy per process

    def scope(number):
        names = [f"CPU:{index}" for index in range(number)]
        return tf.distribute.MirroredStrategy(names, cross_device_ops=reduction).scope()

    return scope


def train_on_devices(counts, names):
    """Prints weights and logs by `case/number of devices`; 0 is without a distribution."""
    scope = logical_devices(max(counts))
    results = {}
    for name, count in itertools.product(names, [0, *counts]):
        with scope(count) if count else contextlib.nullcontext():
            results[f"{name}/{count}"] = fit_case(CASES[name])
    print(json.dumps(results))


class Scores(keras.callbacks.Callback):
    """Computes a score after each epoch, and lowers the learning rate; may kill this process."""

    def __init__(self, steps_to_death):
        super().__init__()
        self.steps_to_death = steps_to_death

    def on_train_batch_end(self, batch, logs=None):
        if self.steps_to_death is not None:
            self.steps_to_death -= 1
        if self.steps_to_death == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_end(self, epoch, logs=None):
        with final_weights(self.model):
            logits = predict(self.model.classifier, SOURCE[:7])
        logs["score"] = float(np.mean(logits.astype("float64") ** 2))
        self.model.optimizer.learning_rate = RATE / 2


def train_case(case, folder, steps_to_death):
    """Returns weights and history after two epochs of `fit`."""
    number, count = get_process_position()
    model, pairs = build_case(case, momentum=0.9, process_id=number, num_processes=count)
    settings = {"epochs": 2, "steps_per_epoch": STEPS, "verbose": 0}
    history = fit(model, pairs, folder, callbacks=[Scores(steps_to_death)], **settings)
    return list_weights(model), history.history


def train_on_machines(folder, names, distribution, steps_to_death):
    """Prints weights and logs by case; this process may die after some steps."""
    spread = Distribution(**distribution)
    spread.connect()
    start(0, distribution=spread)
    checkpoints = pathlib.Path(folder) / f"process_{get_process_position()[0]}"
    results = {name: train_case(CASES[name], checkpoints / name, steps_to_death) for name in names}
    print(json.dumps(results))


if __name__ == "__main__":
    train = {"devices": train_on_devices, "machines": train_on_machines}[sys.argv[1]]
    train(*map(json.loads, sys.argv[2:]))
