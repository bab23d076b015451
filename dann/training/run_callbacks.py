"""Callbacks of a run: its time, its scores, and the oracle curve."""

import functools
import hashlib
import time
from typing import Any

import keras
import numpy as np

from dann.checks import check_choice, check_integer
from dann.data import DomainPair
from dann.selection import choose
from dann.selection.scores import scores_or_worst
from dann.training.host_model import HostModel
from dann.training.run_directory import RunDirectory


class _Stateful(keras.callbacks.Callback):
    """A callback whose state between two epochs is in some of its attributes."""

    state: tuple[str, ...]

    def state_dict(self) -> dict[str, Any]:
        """Returns the state."""
        return {name: getattr(self, name) for name in self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        vars(self).update({name: state[name] for name in self.state})


class Clock(_Stateful):
    """Adds up the time of the training steps; must be the first of the callbacks.

    It leaves out the time of other callbacks at the end of an epoch, such as saving.
    `seconds` is wall time, `cpu_seconds` the time of all threads of the process.
    """

    state = ("seconds", "cpu_seconds")

    def __init__(self):
        super().__init__()
        self.seconds = self.cpu_seconds = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds += time.perf_counter() - self._started[0]
        self.cpu_seconds += time.process_time() - self._started[1]


class OracleCurve(_Stateful):
    """Measures the accuracy on the target's test set after every epoch.

    It writes the run's oracle curve and adds nothing to the logs, so that no other callback can
    stop, save or choose by target labels.

    Args:
        host: Computes with the model.
        target: Target test inputs and labels.
        run: The run directory.
        clock: A clock earlier in the list of callbacks.
    """

    state = ("rows",)

    def __init__(self, host: HostModel, target: Any, run: RunDirectory, clock: Clock):
        super().__init__()
        self.host, self.target = host, target
        self.run, self.clock = run, clock
        self.rows = []

    def on_epoch_end(self, epoch, logs=None):
        inputs, labels = self.target
        logits = self.host.predict(self.model.classifier, inputs, self.host.values_at_end())
        accuracy = float(np.mean(logits.argmax(axis=-1) == labels))
        step = (epoch + 1) * self.params["steps"]
        self.rows.append([step, round(self.clock.cpu_seconds, 2), accuracy])
        self.run.write_oracle_curve(self.rows)


class RunScores(_Stateful):
    """Adds the label-free scores of a run to the logs, as `selection/<name>`, after every epoch.

    They are of the weights that the training would end with then. With `keep` it ends with those of
    the epoch that this score puts first.

    Args:
        host: Computes with the model.
        domains: The data. The scores use the source's test set and the target's training inputs.
        selection: Object with `scores`, `samples` and `keep`, as `Run` takes it.
        seed: Seed of the choice of examples.

    Raises:
        ValueError: If a score is unknown, `keep` is none of them, or the two test sets are equal,
            because the scores would then see the target's labels.
    """

    state = ("best", "kept")

    def __init__(self, host: HostModel, domains: DomainPair, selection: Any, seed: int):
        super().__init__()
        self.host = host
        self.scores = choose(selection.scores)
        self.keep = check_choice("selection.keep", selection.keep, (None, *self.scores))
        check_integer("selection.samples", selection.samples, low=1)
        rng = np.random.default_rng(seed)

        def some(values):
            return np.sort(rng.permutation(len(values))[: selection.samples])

        inputs, labels = domains.source_test
        chosen = some(labels)
        _check_tests_differ(domains, chosen)
        self.source = inputs[chosen], labels[chosen]
        self.target = domains.target_train[some(domains.target_train)]
        self.best, self.kept = -np.inf, None

    def on_epoch_end(self, epoch, logs=None):
        values = self.host.values_at_end()
        found = scores_or_worst(
            self.model,
            source=self.source,
            target=self.target,
            scores=self.scores,
            predict=functools.partial(self.host.predict, values=values),
        )
        logs.update({f"selection/{name}": value for name, value in found.items()})
        if self.keep and (self.kept is None or found[self.keep] > self.best):
            self.best = found[self.keep]
            self.kept = [values[id(weight)] for weight in self.model.weights]

    def on_train_end(self, logs=None):
        if self.kept is not None:
            self.model.set_weights(self.kept)


def target_classes(host: HostModel, domains: DomainPair, samples: int) -> tuple[str, np.ndarray]:
    """Predicts the classes of some of the target's training inputs, the same ones in every run.

    Returns:
        A digest of the inputs, by which other runs on the same ones are found, and the classes.
    """
    target = domains.target_train
    chosen = np.sort(np.random.default_rng(0).permutation(len(target))[:samples])
    inputs = target[chosen]
    digest = hashlib.sha256()
    for part in map(np.asarray, keras.tree.flatten(inputs)):
        digest.update((part.astype(str) if part.dtype.hasobject else part).tobytes())
    return digest.hexdigest(), host.predict(host.model.classifier, inputs).argmax(axis=1)


def _check_tests_differ(domains, chosen):
    (source, _), (target, _) = domains.source_test, domains.target_test
    if len(source) == len(target) and np.array_equal(source[chosen], target[chosen]):
        raise ValueError(
            "Scores read the labels of the source's test set, so the target must have another; "
            "use selection=none. Received: the same test set for both domains"
        )
