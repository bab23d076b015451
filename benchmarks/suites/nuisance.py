"""Accuracy and leakage of `dann.Invariant` and of fairlearn, on a table and on a signal."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_breast_cancer

from benchmarks.timing import Comparison, Times
from dann.adaptation import Invariant
from dann.diagnostics import leakage
from dann.optimizers import faster_heads

_BATCH, _STEPS, _PROBED = 64, 300, 400
_QUIET: Any = 0
_STRENGTHS = {"dann": (0.0, 0.3, 1.0, 3.0, 10.0), "fairlearn": (0.0, 1.0, 10.0, 30.0, 100.0)}


class Task(NamedTuple):
    """A dataset with a nuisance, and the layers of the network.

    Attributes:
        x: Inputs, `(n, ...)`.
        y: Classes, `(n,)`.
        nuisance: Values of the nuisance, `(n,)`.
        is_train: Whether an example belongs to the training set, `(n,)`.
        body: Functions that create the layers between inputs and outputs.
    """

    x: np.ndarray
    y: np.ndarray
    nuisance: np.ndarray
    is_train: np.ndarray
    body: Sequence[Any]


def make_tasks() -> dict[str, Task]:
    """Returns two tasks by name.

    `table` is scikit-learn's breast cancer table; the nuisance is whether the texture is above its
    median. `signal` contains seglearn's smartwatch exercises; the nuisance is the person.
    """
    from seglearn.datasets import load_watch  # pyright: ignore[reportMissingImports]

    features = [lambda: layers.Dense(8, "relu")]
    data: Any = load_breast_cancer()
    texture = (data.data[:, 1] > np.median(data.data[:, 1])).astype(int)
    is_train = np.random.default_rng(0).permutation(len(texture)) < 0.6 * len(texture)
    table = Task(data.data, data.target, texture, is_train, features)
    watch = load_watch()
    # (windows, 100 steps, 6 channels) per recording
    recordings = [x[: len(x) // 100 * 100].reshape(-1, 100, 6) for x in watch["X"]]
    y, people = (np.repeat(watch[key], list(map(len, recordings))) for key in ("y", "subject"))
    # The test set is the end of each recording, so that no window is in both sets.
    is_train = np.concatenate([np.arange(len(x)) < 0.6 * len(x) for x in recordings])
    body = [lambda: layers.Conv1D(32, 5, 2, activation="relu")] * 2
    body = [*body, layers.GlobalAveragePooling1D, *features]
    signal = Task(np.concatenate(recordings), y, people - 1, is_train, body)
    return {"table": table, "signal": signal}


def measure_nuisances(settings: Any) -> list[Comparison]:
    """Measures accuracy against hiding of the nuisance, and the time of a step.

    Each method trains for 300 steps of 64 examples at each strength; neither is tuned. On up to 400
    test examples, `dann.diagnostics.leakage` measures how well the outputs and the features before
    them hide the nuisance: `1 - (leakage - chance) / (1 - chance)`. See `hypervolume`.

    Args:
        settings: `rounds`, the number of seeds.
    """
    methods = {"dann": _train_dann, "fairlearn": _train_fairlearn}
    return [_compare(name, task, methods, settings.rounds) for name, task in make_tasks().items()]


def hypervolume(points: Any) -> float:
    """Returns the area of the union of `[0, accuracy] x [0, hidden]` over points `(n, 2)`."""
    area = best = 0.0
    for accuracy, hidden in sorted(np.clip(points, 0, 1).tolist(), reverse=True):
        area += accuracy * max(hidden - best, 0.0)
        best = max(best, hidden)
    return area


def _compare(name, task, methods, seeds):
    times, notes = {}, {}
    for method, train in methods.items():
        strengths = _STRENGTHS[method]
        runs = [[_run(task, train, value, seed) for value in strengths] for seed in range(seeds)]
        results = np.array(runs)  # (seeds, strengths, 5)
        times[method] = Times(results[..., 3].ravel(), results[..., 4].ravel())
        note = f"{seeds} seeds; hypervolume"
        for column, level in enumerate(("outputs", "features"), start=1):
            areas = [hypervolume(points) for points in results[..., [0, column]]]
            note += f" of {level} {np.mean(areas):.3f} ± {np.std(areas):.3f},"
        means = results[..., :3].mean(axis=0)
        rows = "; ".join(" ".join(f"{value:.2f}" for value in row) for row in means)
        notes[method] = f"{note} accuracy and hiding (outputs, features) at {strengths}: {rows}"
    return Comparison(f"{name}, a step", times, notes=notes)


def _run(task, train, strength, seed):
    """Returns accuracy, hiding by outputs and by features, and CPU and wall time of a step."""
    keras.utils.set_random_seed(seed)
    axes, test = tuple(range(task.x.ndim - 1)), ~task.is_train
    train_x = task.x[task.is_train]
    x = ((task.x - train_x.mean(axis=axes)) / train_x.std(axis=axes)).astype("float32")
    train_arrays = (array[task.is_train] for array in (x, task.y, task.nuisance))
    cpu, wall = time.process_time(), time.perf_counter()
    network = train(task, *train_arrays, strength, seed)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    inputs = x[test].reshape(-1, *network.input_shape[1:])
    features, outputs = network.predict(inputs, verbose=_QUIET)
    # fairlearn's binary network has one sigmoid output.
    outputs = np.hstack([1 - outputs, outputs]) if outputs.shape[1] == 1 else outputs
    accuracy = np.mean(outputs.argmax(axis=1) == task.y[test])
    rows = np.random.default_rng(seed).permutation(len(outputs))[:_PROBED]
    nuisances = {"nuisance": task.nuisance[test][rows]}
    hidden = []
    for values in (np.log(np.clip(outputs, 1e-7, 1)), features):
        leak = leakage(values[rows], None, nuisances, seed=seed)["nuisance"]
        hidden.append(1 - (leak.score - leak.chance) / (1 - leak.chance))
    return accuracy, *hidden, cpu / _STEPS, wall / _STEPS


def _epochs(x):
    return round(_STEPS / np.ceil(len(x) / _BATCH))


def _train_dann(task, x, y, nuisance, strength, seed):
    backbone = keras.Sequential([keras.Input(x.shape[1:]), *(make() for make in task.body)])
    head = keras.Sequential([keras.Input((8,)), layers.Dense(len(np.unique(y)))])
    kinds = {"nuisance": len(np.unique(nuisance))}
    model = Invariant(backbone, label_head=head, nuisances=kinds, strength=strength)
    model.compile(faster_heads(model, keras.optimizers.Adam(1e-3, beta_1=0.5)))
    labels: Any = {"label": y, "nuisance": nuisance}
    model.fit(x, labels, batch_size=_BATCH, epochs=_epochs(x), verbose=_QUIET)
    return keras.Model(
        backbone.inputs, [backbone.outputs[0], keras.ops.softmax(model.classifier.output)]
    )


def _train_fairlearn(task, x, y, nuisance, strength, seed):
    """Passes Keras networks: from a list, fairlearn builds no softmax for three or more classes."""
    from fairlearn.adversarial import (  # pyright: ignore[reportMissingImports]
        AdversarialFairnessClassifier,
    )

    counts = [len(np.unique(labels)) for labels in (y, nuisance)]
    outputs = [layers.Dense(1, "sigmoid") if n == 2 else layers.Dense(n, "softmax") for n in counts]
    flat = x.reshape(len(x), -1)
    body = [layers.Reshape(x.shape[1:]), *(make() for make in task.body)]
    adversary = [keras.Input((outputs[0].units,)), layers.Dense(100, "relu")]
    predictor = keras.Sequential([keras.Input(flat.shape[1:]), *body, outputs[0]])
    model = AdversarialFairnessClassifier(
        backend="tensorflow",
        predictor_model=predictor,
        adversary_model=keras.Sequential([*adversary, outputs[1]]),
        learning_rate=5e-3,
        alpha=strength,
        batch_size=_BATCH,
        epochs=_epochs(x),
        shuffle=True,
        random_state=seed,
    )
    model.fit(flat, y, sensitive_features=nuisance)
    return keras.Model(predictor.inputs, [predictor.layers[-2].output, *predictor.outputs])
