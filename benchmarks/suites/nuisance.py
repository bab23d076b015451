"""Accuracy and leakage of `dann.Invariant` beside fairlearn's class, on a table and on a signal."""

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
    """Inputs `(n, ...)`, classes and nuisance `(n,)`, which examples are trained on, `(n,)`, and
    the layers between inputs and outputs, as functions that make them.
    """

    x: np.ndarray
    y: np.ndarray
    nuisance: np.ndarray
    is_train: np.ndarray
    body: Sequence[Any]


def tasks() -> dict[str, Task]:
    """Returns scikit-learn's breast cancer table, where it is to be hidden whether the texture is
    above its median, and seglearn's exercises of ten people, who are to be hidden.
    """
    from seglearn.datasets import load_watch  # pyright: ignore[reportMissingImports]

    features = [lambda: layers.Dense(8, "relu")]
    data: Any = load_breast_cancer()
    texture = (data.data[:, 1] > np.median(data.data[:, 1])).astype(int)
    is_train = np.random.default_rng(0).permutation(len(texture)) < 0.6 * len(texture)
    table = Task(data.data, data.target, texture, is_train, features)
    watch = load_watch()
    cut = [one[: len(one) // 100 * 100].reshape(-1, 100, 6) for one in watch["X"]]
    y, people = (np.repeat(watch[key], list(map(len, cut))) for key in ("y", "subject"))
    # The end of each recording is tested on.
    is_train = np.concatenate([np.arange(len(one)) < 0.6 * len(one) for one in cut])
    body = [lambda: layers.Conv1D(32, 5, 2, activation="relu")] * 2
    body = [*body, layers.GlobalAveragePooling1D, *features]
    signal = Task(np.concatenate(cut), y, people - 1, is_train, body)
    return {"table": table, "signal": signal}


def hidden_nuisances(settings: Any) -> list[Comparison]:
    """Measures how much accuracy each method keeps for what it hides, and the time of a step.

    All train 300 steps of 64 examples at each strength, neither tuned. Of up to 400 test examples
    `dann.diagnostics.leakage` tells how far the outputs and the features before them hide the
    nuisance, each as `1 - (leakage - chance) / (1 - chance)`; see `hypervolume`.

    Args:
        settings: `rounds`, the number of seeds.
    """
    ways = {"dann": _by_dann, "fairlearn": _by_fairlearn}
    return [_compared(name, task, ways, settings.rounds) for name, task in tasks().items()]


def hypervolume(points: Any) -> float:
    """Returns the area of all `[0, accuracy] x [0, hidden]` together, points `(n, 2)` in [0, 1]."""
    area = best = 0.0
    for accuracy, hidden in sorted(np.clip(points, 0, 1).tolist(), reverse=True):
        area += accuracy * max(hidden - best, 0.0)
        best = max(best, hidden)
    return area


def _compared(name, task, ways, seeds):
    times, notes = {}, {}
    for way, train in ways.items():
        runs = [[_run(task, train, one, seed) for one in _STRENGTHS[way]] for seed in range(seeds)]
        found = np.array(runs)  # (seeds, strengths, 5)
        times[way] = Times(found[..., 3].ravel(), found[..., 4].ravel())
        told = [f"{seeds} seeds; hypervolume"]
        for column, of in enumerate(("outputs", "features"), start=1):
            areas = [hypervolume(points) for points in found[..., [0, column]]]
            told.append(f"of {of} {np.mean(areas):.3f} ± {np.std(areas):.3f},")
        rows = "; ".join(" ".join(f"{v:.2f}" for v in row) for row in found[..., :3].mean(axis=0))
        notes[way] = f"{' '.join(told)} accuracy and both at {_STRENGTHS[way]}: {rows}"
    return Comparison(f"{name}, a step", times, notes=notes)


def _run(task, train, strength, seed):
    """Accuracy, how far outputs and features hide the nuisance, and CPU and wall time of a step."""
    keras.utils.set_random_seed(seed)
    axes, test = tuple(range(task.x.ndim - 1)), ~task.is_train
    mean, deviation = (getattr(task.x[task.is_train], of)(axis=axes) for of in ("mean", "std"))
    x = ((task.x - mean) / deviation).astype("float32")
    columns = (one[task.is_train] for one in (x, task.y, task.nuisance))
    cpu, wall = time.process_time(), time.perf_counter()
    network = train(task, *columns, strength, seed)
    spent = time.process_time() - cpu, time.perf_counter() - wall
    inputs = x[test].reshape(-1, *network.input_shape[1:])
    features, chances = network.predict(inputs, verbose=_QUIET)
    chances = np.hstack([1 - chances, chances]) if chances.shape[1] == 1 else chances
    accuracy = np.mean(chances.argmax(axis=1) == task.y[test])
    chosen = np.random.default_rng(seed).permutation(len(chances))[:_PROBED]
    values = {"it": task.nuisance[test][chosen]}
    hidden = []
    for seen in (np.log(np.clip(chances, 1e-7, 1)), features):
        left = leakage(seen[chosen], None, values, seed=seed)["it"]
        hidden.append(1 - (left.score - left.chance) / (1 - left.chance))
    return accuracy, *hidden, *(one / _STEPS for one in spent)


def _epochs(x):
    return round(_STEPS / np.ceil(len(x) / _BATCH))


def _by_dann(task, x, y, nuisance, strength, seed):
    backbone = keras.Sequential([keras.Input(x.shape[1:]), *(make() for make in task.body)])
    head = keras.Sequential([keras.Input((8,)), layers.Dense(len(np.unique(y)))])
    kinds = {"it": len(np.unique(nuisance))}
    model = Invariant(backbone, label_head=head, nuisances=kinds, strength=strength)
    model.compile(faster_heads(model, keras.optimizers.Adam(1e-3, beta_1=0.5)))
    labels: Any = {"label": y, "it": nuisance}
    model.fit(x, labels, batch_size=_BATCH, epochs=_epochs(x), verbose=_QUIET)
    return keras.Model(
        backbone.inputs, [backbone.outputs[0], keras.ops.softmax(model.classifier.output)]
    )


def _by_fairlearn(task, x, y, nuisance, strength, seed):
    """Networks given to it as lists have no softmax if there are more than two classes."""
    from fairlearn.adversarial import (  # pyright: ignore[reportMissingImports]
        AdversarialFairnessClassifier,
    )

    counts = [len(np.unique(labels)) for labels in (y, nuisance)]
    outputs = [layers.Dense(1, "sigmoid") if n == 2 else layers.Dense(n, "softmax") for n in counts]
    flat = x.reshape(len(x), -1)
    body = [layers.Reshape(x.shape[1:]), *(make() for make in task.body)]
    hidden = [keras.Input((outputs[0].units,)), layers.Dense(100, "relu")]
    predictor = keras.Sequential([keras.Input(flat.shape[1:]), *body, outputs[0]])
    model = AdversarialFairnessClassifier(
        backend="tensorflow",
        predictor_model=predictor,
        adversary_model=keras.Sequential([*hidden, outputs[1]]),
        learning_rate=5e-3,
        alpha=strength,
        batch_size=_BATCH,
        epochs=_epochs(x),
        shuffle=True,
        random_state=seed,
    )
    model.fit(flat, y, sensitive_features=nuisance)
    return keras.Model(predictor.inputs, [predictor.layers[-2].output, *predictor.outputs])
