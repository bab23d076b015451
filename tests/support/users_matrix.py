"""What users combine, what comes of each combination, and how to try one.

`docs/tables.py` makes the tables of `docs/supported.md` from what this file says is refused. The
tests try the cells: each gives the messages that stand here, by stage, and no others.
"""

import functools
import pickle
import re
from typing import Any

import keras
import numpy as np
from support import toy_backbones
from support.array_batches import ArrayBatches
from support.toy_backbones import BACKBONES, COUNT, INPUTS

import dann
from dann.data import pair
from dann.data.examples import strings_as_tensors
from dann.diagnostics import check
from dann.selection import compute_scores

METHODS = dann.adaptation.METHODS.entries()

# What users read, by a short name: for the table, and a pattern that the message matches.
MESSAGES = {
    "one input": ("Keras's `Sequential` takes one input", None),
    "images": ("`keras.applications` takes images", None),
    "floating": (
        "Expected a floating-point tensor, because no gradient flows through other types. Cast it "
        "first.",
        "Expected a floating-point tensor.*Cast it first",
    ),
    "perturbs": (
        "`VirtualAdversarial` perturbs inputs, so at least one must be floating-point.",
        "`VirtualAdversarial` perturbs inputs, so at least one must be floating-point",
    ),
    "number them": (
        "Labels of the source must be numbers; `names, numbers = np.unique(labels, "
        "return_inverse=True)` numbers them.",
        r"must be numbers; `names, numbers = np.unique",
    ),
    "from zero": (
        "Labels must be at least 0 and below 3, the number of classes.",
        "Labels must be at least 0 and below 3, the number of classes",
    ),
    "another loss": (
        "Labels that are one-hot or soft need another loss: "
        "`compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True))`.",
        "one-hot or soft need another loss: `compile",
    ),
    "no classes": (
        "The labels of the source must be the number of a class for each example, or one-hot.",
        "must be the number of a class for each example, or one-hot",
    ),
}
REFUSED_NETWORKS: dict[tuple[str, str], dict[str, str]] = {
    ("a layer without weights", "images"): {"fit": "floating"},
    ("a layer without weights", "tokens"): {"fit": "floating"},
    ("a layer without weights", "strings"): {"fit": "floating"},
}
REFUSED_METHODS = {
    ("dirt_t", "tokens"): {"fit": "perturbs"},
    ("dirt_t", "strings"): {"fit": "perturbs"},
}
REFUSED_LABELS = {
    "one-hot without a loss": {"fit": "another loss"},
    "soft": {"score": "no classes"},
    "numbers (regression)": {"score": "no classes"},
    "strings": {"fit": "number them"},
    "from 1": {"fit": "from zero"},
}


def told_of_network(backbone, kind):
    """What each stage says that refuses a backbone with inputs of a kind."""
    return REFUSED_NETWORKS.get((backbone, kind), {})


def told_of_method(name, kind):
    """What each stage says that refuses inputs of a kind for a method."""
    return REFUSED_METHODS.get((name, kind), {})


def told_of_labels(labels, source):
    """What each stage says that refuses labels of a kind, wherever they come from."""
    return REFUSED_LABELS.get(labels, {})


def impossible(backbone, kind):
    """Why Keras itself has no such backbone, or `None`."""
    if backbone == "Sequential with Input" and kind in ("dict", "list"):
        return "one input"
    return "images" if backbone == "keras.applications" and kind != "images" else None


def method_of(backbone, kind):
    """One method for each cell, so that each method meets many backbones and inputs."""
    methods = [method for method in METHODS if not told_of_method(method.name, kind)]
    place = list(BACKBONES).index(backbone) * 5 + list(INPUTS).index(kind)
    return methods[place % len(methods)]


def model_of(backbone, entry, **arguments):
    """A compiled model of a method."""
    settings = {**entry.facts.get("arguments", {}), **entry.facts.get("needs", {}), **arguments}
    settings |= {"num_sources": 2} if entry.name == "mdan" else {}
    return entry.thing(backbone, **{"num_classes": 3, **settings})


class Trial:
    """One combination, tried stage by stage; `told` keeps the messages of those that refuse."""

    def __init__(self, folder: Any):
        self.folder, self.told = folder, {}

    def stage(self, name, function):
        """Runs a stage; returns whether it worked."""
        try:
            function()
        except (TypeError, ValueError, NotImplementedError) as error:
            self.told[name] = str(error)
        return name not in self.told

    def save(self, model, again, inputs):
        """Writes the model, what goes on with it, and then the numbers after one more step."""
        model.save(self.folder / "model.keras")
        (self.folder / "again.pkl").write_bytes(pickle.dumps((again, inputs)))
        np.savez(self.folder / "expected.npz", *gone_on(model, again, inputs))


def gone_on(model, again, inputs):
    """The logits, and the weights after one more step, which are the same in another process."""
    logits = model.predict(strings_as_tensors(inputs), verbose=0)
    model.train_on_batch(*again)
    return [logits, *(keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights)]


def finite(values):
    """Raises a `ValueError` unless all are finite."""
    if not np.isfinite(values).all():
        raise ValueError(f"Expected finite numbers. Received: {values}")


def try_network(backbone, kind, folder, entry=None):
    """Tries a backbone on inputs of a kind with a method, by default the one of that cell."""
    keras.utils.set_random_seed(0)
    trial, entry = Trial(folder), entry or method_of(backbone, kind)
    source, target = INPUTS[kind](0), INPUTS[kind](1)
    labels = toy_backbones.LABELS
    arguments = {"source_domain": np.arange(COUNT) % 2} if entry.name == "mdan" else {}
    made: dict[str, Any] = {}

    def build():
        made["model"] = model_of(BACKBONES[backbone](kind, folder), entry)
        made["model"].compile(
            keras.optimizers.Adam(0.01),
            metrics=["accuracy"],
            jit_compile=False,  # which takes long
        )

    def fit():
        made["pairs"] = pair((source, labels), target, 6, seed=0, **arguments)
        made["model"].fit(made["pairs"], verbose=0)
        if "length" in kind:
            shorter = pair((source[:, :4], labels), target[:, :4], 6, seed=0, **arguments)
            made["model"].fit(shorter, verbose=0)

    if trial.stage("build", build) and trial.stage("fit", fit):
        model, pairs = made["model"], made["pairs"]
        trial.stage("save", lambda: trial.save(model, pairs[0], target))
        trial.stage("predict", lambda: finite(model.predict(strings_as_tensors(target), verbose=0)))
        scores = ["source_accuracy", "entropy", "mcc"]
        together = functools.partial(compute_scores, source=(source, labels), target=target)
        trial.stage("score", lambda: together(model, scores=scores))
        trial.stage("diagnose", lambda: check(model, pairs, mode="eager"))
    return trial.told


def try_method(name, kind, folder):
    """Tries a method with a functional backbone on inputs of a kind."""
    (entry,) = (method for method in METHODS if method.name == name)
    return try_network("functional", kind, folder, entry)


NUMBERS = INPUTS["numbers"]
CLASSES = toy_backbones.LABELS
NAMES = np.array(["cat", "dog", "emu"])[CLASSES]
SOFT = np.full((COUNT, 3), 0.1, "float32") + 0.7 * np.eye(3, dtype="float32")[CLASSES]

# Labels, and what `compile` gets.
LABELS = {
    "integers": (CLASSES, {}),
    "bytes": (CLASSES.astype("uint8"), {}),
    "a column": (CLASSES[:, None], {}),
    "whole floats": (CLASSES.astype("float32"), {}),
    "one-hot": (np.eye(3, dtype="float32")[CLASSES], {"loss": "categorical_crossentropy"}),
    "one-hot without a loss": (np.eye(3, dtype="float32")[CLASSES], {}),
    "soft": (SOFT, {"loss": "categorical_crossentropy"}),
    "numbers (regression)": (CLASSES / 3.0, {"loss": "mse"}),
    "strings": (NAMES, {}),
    "from 1": (CLASSES + 1, {}),
}


def of_tensorflow(*arrays):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(5)


def of_torch(*arrays):
    import torch
    from torch.utils.data import DataLoader

    rows = list(zip(*arrays, strict=True)) if len(arrays) > 1 else list(arrays[0])
    return DataLoader(rows, batch_size=5) if torch else None


# A source of data, from arrays.
SOURCES = {
    "arrays": lambda *arrays: arrays if len(arrays) > 1 else arrays[0],
    "lists of rows": lambda *arrays: (
        tuple(a.tolist() for a in arrays) if len(arrays) > 1 else arrays[0].tolist()
    ),
    "tf.data": of_tensorflow,
    "PyDataset": ArrayBatches,
    "torch DataLoader": of_torch,
}


def try_labels(labels, source, folder):
    """Tries labels of a kind in data of a kind."""
    keras.utils.set_random_seed(0)
    trial, (values, compiled) = Trial(folder), LABELS[labels]
    make, target = SOURCES[source], NUMBERS(1)
    backbone = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])
    model = dann.DANN(backbone, label_head=keras.layers.Dense(1 if "regression" in labels else 3))
    model.compile("sgd", jit_compile=False, **compiled)
    made: dict[str, Any] = {}

    def fit():
        made["pairs"] = pair(make(NUMBERS(0), values), make(target), 6, seed=0)
        model.fit(made["pairs"], verbose=0)

    if trial.stage("fit", fit):
        batch = pair((NUMBERS(0), values), target, 6, seed=0)[0]
        trial.stage("save", lambda: trial.save(model, batch, target))
        trial.stage("predict", lambda: finite(model.predict(target, verbose=0)))
        scores = ["source_accuracy", "entropy", "mcc"]
        known, unknown = make(NUMBERS(0), values), make(target)
        together = functools.partial(compute_scores, source=known, target=unknown)
        trial.stage("score", lambda: together(model, scores=scores))
        trial.stage("diagnose", lambda: check(model, made["pairs"], mode="eager"))
    return trial.told


def agrees(told, wanted):
    """Whether stages refused with the messages that the table shows, and no others."""
    return set(told) == set(wanted) and all(
        re.search(str(MESSAGES[wanted[stage]][1]), told[stage], re.DOTALL) for stage in told
    )
