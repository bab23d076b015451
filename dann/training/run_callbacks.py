"""What a run computes beside its steps: time, predictions, scores and the oracle curve."""

import contextlib
import functools
import os
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pandas
from keras import ops

from dann.checks import check_choice, check_integer
from dann.data import DomainPair
from dann.data.examples import apply_in_batches
from dann.data.probes import FOLDS, probe_domains
from dann.selection import compute_outputs, info_max, resolve_scores
from dann.selection.scores import lacking_examples, scores_or_worst


class HostModel:
    """Computes with copies of a model's variables, on one device of this process.

    The variables themselves may lie on several devices or in several processes, or be those that
    train while their averages are the result. Nothing is assigned to them.

    Args:
        model: A compiled model.
    """

    def __init__(self, model: Any):
        self.model = model
        self._compiled = functools.cache(_compiled)

    def values_at_end(self) -> dict[int, np.ndarray]:
        """Returns the values by `id(variable)` that a training would end with now.

        With `use_ema=True` of the optimizer they are averages.
        """
        weights = self.model.trainable_variables
        training = _by_id(weights)
        self.model.optimizer.finalize_variable_values(weights)
        values = _by_id(self.model.variables)
        for weight in weights:
            weight.assign(training[id(weight)])
        return values

    def predict(self, network: Any, inputs: Any, values: dict | None = None) -> np.ndarray:
        """Returns the outputs of a part of the model for inputs, in inference mode.

        Args:
            network: The classifier or another network of the model's variables.
            inputs: Array-like `(n, ...)` or a nested structure of them.
            values: What `values_at_end` returned. Defaults to `None`: the values now.

        Returns:
            Array `(n, ...)`, float64.
        """
        held = _by_id(self.model.variables) if values is None else values
        run = self._compiled(network)
        with _on_one_device():
            trainable, other = (
                [ops.convert_to_tensor(held[id(variable)]) for variable in variables]
                for variables in (network.trainable_variables, network.non_trainable_variables)
            )
            outputs = apply_in_batches(functools.partial(run, trainable, other), inputs)
        return outputs.astype("float64")


class Clock(keras.callbacks.Callback):
    """Adds up the time of the training steps; must come before callbacks that save or score.

    It leaves out their time at the end of an epoch.
    `seconds` is wall time, `cpu_seconds` the time of all threads of the process.
    """

    saved_attributes = ("seconds", "cpu_seconds")

    def __init__(self):
        super().__init__()
        self.seconds = self.cpu_seconds = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds += time.perf_counter() - self._started[0]
        self.cpu_seconds += time.process_time() - self._started[1]


class EpochLines(keras.callbacks.Callback):
    """Prints a line an epoch; it comes after the callback whose scores it shows.

    `epoch 3/10  source 99.8%  domain acc 0.65  strength 0.25  InfoMax 1.96  0:12 left`: the
    accuracies on the epoch's training batches, the strength of the reversal, the score, and the
    time that the other epochs will take if they are as fast as this one; the first, which compiles,
    tells none. What a model does not log is left out; without a discriminator's accuracy the loss
    takes its place.
    """

    fields = {
        "accuracy": "{domain} {:.1%}",
        "domain/accuracy": "domain acc {:.2f}",
        "loss": "loss {:.3g}",
        "strength": "strength {:.2f}",
        "selection/info_max": "InfoMax {:.2f}",
    }

    def on_train_begin(self, logs=None):
        self._ended: float | None = None

    def on_epoch_end(self, epoch, logs=None):
        domain = "target" if getattr(self.model, "oracle", False) else "source"
        left_out = "loss" if "domain/accuracy" in logs else None
        names = [name for name in self.fields if name in logs and name != left_out]
        domain = "label" if hasattr(self.model, "nuisances") else domain
        told = [self.fields[name].format(logs[name], domain=domain) for name in names]
        now, epochs = time.perf_counter(), self.params["epochs"]
        if self._ended is not None and epoch + 1 < epochs:
            minutes, seconds = divmod(round((epochs - epoch - 1) * (now - self._ended)), 60)
            told.append(f"{minutes}:{seconds:02} left")
        self._ended = now
        print(f"epoch {epoch + 1}/{epochs}", *told, sep="  ", flush=True)


class EpochTable(keras.callbacks.Callback):
    """Writes what is logged as a CSV file, a row an epoch.

    A training that resumes brings the rows of its epochs back and drops later ones, which Keras's
    `CSVLogger` cannot.

    Args:
        filename: Path of the file, which is written anew after every epoch.
    """

    saved_attributes = ("rows",)

    def __init__(self, filename: str | os.PathLike):
        super().__init__()
        self.filename = filename
        self.rows = []

    def on_epoch_end(self, epoch, logs=None):
        self.add({"epoch": epoch, **dict(sorted((logs or {}).items()))})

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row, and writes the file."""
        self.rows.append(row)
        pandas.DataFrame(self.rows).to_csv(self.filename, index=False, na_rep="nan")


class OracleCurve(EpochTable):
    """Measures the accuracy on the target's test set after every epoch.

    It writes the run's oracle curve and adds nothing to the logs, so that no other callback can
    stop, save or choose by target labels.

    Args:
        host: Computes with the model.
        target: Target test inputs and labels.
        clock: A clock earlier in the list of callbacks.
        filename: As in `EpochTable`.
    """

    def __init__(self, host: HostModel, target: Any, clock: Clock, filename: str | os.PathLike):
        super().__init__(filename)
        self.host, self.target, self.clock = host, target, clock

    def on_epoch_end(self, epoch, logs=None):
        inputs, labels = self.target
        logits = self.host.predict(self.model.classifier, inputs, self.host.values_at_end())
        accuracy = float(np.mean(logits.argmax(axis=-1) == labels))
        step, seconds = (epoch + 1) * self.params["steps"], round(self.clock.cpu_seconds, 2)
        self.add({"step": step, "cpu_seconds": seconds, "target/accuracy": accuracy})


class RunScores(keras.callbacks.Callback):
    """Adds the label-free scores of a run to the logs, as `selection/<name>`, after every epoch.

    They are of the weights that the training would end with then. Scores that need more examples
    than there are do not run, which is printed. With `keep` it ends with those of
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

    saved_attributes = ("best", "kept")

    def __init__(self, host: HostModel, domains: DomainPair, selection: Any, seed: int):
        super().__init__()
        self.host = host
        self.scores = resolve_scores(selection.scores)
        check_integer("selection.samples", selection.samples, low=1)
        rng = np.random.default_rng(seed)

        def some(values):
            return np.sort(rng.permutation(len(values))[: selection.samples])

        inputs, labels = domains.source_test
        chosen = some(labels)
        _check_tests_differ(domains, chosen)
        self.source = inputs[chosen], labels[chosen]
        self.target = domains.target_train[some(domains.target_train)]
        few = lacking_examples(self.scores, source=len(chosen), target=len(self.target))
        if few:
            self.scores = {name: one for name, one in self.scores.items() if name not in few}
            print(f"Left out, because they need more examples: {', '.join(few)}")
        self.keep = check_choice("selection.keep", selection.keep, (None, *self.scores))
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

    def of_source_only(self, host: HostModel) -> dict[str, float]:
        """Returns InfoMax, and what a domain probe says of a model of the source alone."""
        read = compute_outputs(
            host.model, source=self.source, target=self.target, mixed=False, predict=host.predict
        )
        found = {"selection/info_max": info_max(read)}
        if min(len(read.source_features), len(read.target_features)) >= FOLDS:
            probe = probe_domains(read.source_features, read.target_features)
            found |= {f"probe/{name}": value for name, value in probe._asdict().items()}
        return found

    def on_train_end(self, logs=None):
        if self.kept is not None:
            self.model.set_weights(self.kept)


def _check_tests_differ(domains, chosen):
    (source, _), (target, _) = domains.source_test, domains.target_test
    if len(source) == len(target) and np.array_equal(source[chosen], target[chosen]):
        raise ValueError(
            "Scores read the labels of the source's test set, so the target must have another; "
            "use selection=none. Received: the same test set for both domains"
        )


def _compiled(network):
    """A network as a function of its trainable variables, its other variables and its inputs."""

    def run(trainable, other, inputs):
        return network.stateless_call(trainable, other, inputs, training=False)[0]

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(run, autograph=False, reduce_retracing=True)
    if keras.backend.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        return jax.jit(run)
    return run


def _on_one_device():
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax  # pyright: ignore[reportMissingImports]

    return jax.default_device(jax.local_devices()[0])


def _by_id(variables: Sequence[Any]) -> dict[int, np.ndarray]:
    return {id(variable): np.array(ops.convert_to_numpy(variable)) for variable in variables}
