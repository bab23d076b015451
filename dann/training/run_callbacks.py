"""Callbacks of a run: time, console lines, metrics, scores and the oracle curve."""

import os
import pathlib
import time
from typing import Any

import keras
import numpy as np
import pandas

from dann.adaptation.prediction import final_weights, predict, to_numpy
from dann.checks import check_choice, check_integer
from dann.data import DomainPair
from dann.data.probes import FOLDS, probe_domains
from dann.selection import compute_outputs, info_max
from dann.selection.outputs import Outputs
from dann.selection.scores import compute_scores_or_worst, resolve_scores
from dann.training.manifest import Manifest


class Clock(keras.callbacks.Callback):
    """Adds up the time of the training steps.

    The clock must come before callbacks that save or score at the end of an epoch, because their
    time must not count.

    Attributes:
        seconds: Wall time.
        cpu_seconds: CPU time of all threads of the process.
    """

    saved_attributes = ("seconds", "cpu_seconds")

    def __init__(self):
        super().__init__()
        self.seconds = self.cpu_seconds = 0.0

    def times(self) -> dict[str, float]:
        """Returns both times by name, rounded to 0.01 seconds."""
        return {"seconds": round(self.seconds, 2), "cpu_seconds": round(self.cpu_seconds, 2)}

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds += time.perf_counter() - self._start[0]
        self.cpu_seconds += time.process_time() - self._start[1]


class EpochLines(keras.callbacks.Callback):
    """Prints one line per epoch.

    This callback must come after the callback that computes the scores.

    `epoch 3/9  train acc 99.8%  strength 0.25  InfoMax 1.96  0:12 left for this model` shows the
    accuracy on the training batches of the epoch, the strength of the reversal, the score, and the
    remaining time, estimated from the duration of this epoch. The first epoch, which includes
    compilation, shows no remaining time. Values that a model does not log are omitted. The accuracy
    of a discriminator follows as `domain acc 65%`; models without it show the loss instead.

    Within a long epoch, lines such as `step 40/2000  12:30 left for this model` show the progress:
    the first after 10 seconds, further lines every 30 seconds. The first call of the compiled step,
    which includes compilation, does not count for the remaining time.

    Args:
        total_steps: Number of training steps, for the lines within an epoch.
    """

    fields = {
        "accuracy": "train acc {:.1%}",
        "mae": "train MAE {:.6g}",
        "domain/accuracy": "domain acc {:.0%}",
        "loss": "loss {:.3g}",
        "strength": "strength {:.2f}",
        "selection/info_max": "InfoMax {:.2f}",
    }

    def __init__(self, total_steps: int):
        super().__init__()
        self.total_steps = total_steps

    def on_train_begin(self, logs=None):
        self._last_end: float | None = None
        self._origin: Any = None  # time and step after the first call
        self._next_line = time.perf_counter() + 10

    def on_epoch_begin(self, epoch, logs=None):
        self._before_epoch = epoch * self.params["steps"]

    def on_train_batch_end(self, batch, logs=None):
        now, step = time.perf_counter(), self._before_epoch + batch + 1
        if now >= self._next_line and step < self.total_steps:
            words, self._next_line = [f"step {step}/{self.total_steps}"], now + 10
            if self._origin:
                seconds_per_step = (now - self._origin[0]) / (step - self._origin[1])
                words.append(_format_time((self.total_steps - step) * seconds_per_step))
                self._next_line = now + 30
            print(*words, sep="  ", flush=True)
        self._origin = self._origin or (now, step)

    def on_epoch_end(self, epoch, logs=None):
        names = logs.keys() - ({"loss"} if "domain/accuracy" in logs else set())
        words = [text.format(logs[name]) for name, text in self.fields.items() if name in names]
        now, epochs = time.perf_counter(), self.params["epochs"]
        if self._last_end is not None and epoch + 1 < epochs:
            words.append(_format_time((epochs - epoch - 1) * (now - self._last_end)))
        self._last_end, self._next_line = now, now + 30
        print(f"epoch {epoch + 1}/{epochs}", *words, sep="  ", flush=True)

    def on_train_end(self, logs=None):
        if self._last_end is None:  # no epoch was left
            print("already trained: loaded from its checkpoint", flush=True)


def _format_time(seconds):
    return f"{round(seconds) // 60}:{round(seconds) % 60:02} left for this model"


class EpochTable(keras.callbacks.Callback):
    """Writes the logs as a CSV file with one row per epoch.

    A resumed run restores the rows up to the checkpoint and deletes later rows, which Keras's
    `CSVLogger` cannot do.

    Args:
        filename: Path of the file. The whole file is written after every epoch.

    Attributes:
        manifest: Manifest to which the file is added. A file that is not in the manifest is not
            replaced. Defaults to `None`: no manifest.
    """

    saved_attributes = ("rows",)  # the manifest belongs to the directory of this start

    def __init__(self, filename: str | os.PathLike):
        super().__init__()
        self.filename = filename
        self.rows = []
        self.manifest: Manifest | None = None

    def on_epoch_end(self, epoch, logs=None):
        self.add({"epoch": epoch, **dict(sorted((logs or {}).items()))})

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row and writes the file."""
        self.rows.append(row)
        if self.manifest:
            self.manifest.check([pathlib.Path(self.filename)])
            self.manifest.record([pathlib.Path(self.filename)])
        pandas.DataFrame(self.rows).to_csv(self.filename, index=False, na_rep="nan")


class OracleCurve(EpochTable):
    """Writes the accuracy on the test set of the target after every epoch.

    It adds nothing to the logs, so that no other callback can stop, save or choose by target
    labels.

    Args:
        target: Target test inputs and labels.
        clock: A clock that comes earlier in the list of callbacks.
        filename: Path of the file.
    """

    def __init__(self, target: Any, clock: Clock, filename: str | os.PathLike):
        super().__init__(filename)
        self.target, self.clock = target, clock

    def on_train_batch_end(self, batch, logs=None):
        self._batches = batch + 1  # the last epoch may be shorter than the others

    def on_epoch_end(self, epoch, logs=None):
        inputs, labels = self.target
        with final_weights(self.model):
            logits = predict(self.model.classifier, inputs)
        accuracy = float(np.mean(logits.argmax(axis=-1) == labels))
        step = epoch * self.params["steps"] + self._batches
        seconds = round(self.clock.cpu_seconds, 2)
        self.add({"step": step, "cpu_seconds": seconds, "target/accuracy": accuracy})


class RunScores(keras.callbacks.Callback):
    """Adds the label-free scores of a run to the logs, as `selection/<name>`, after every epoch.

    The scores compare classes, so there are none in regression.

    The scores belong to the weights that training would return if it stopped there. With `keep`,
    training returns the weights of the epoch with the best score.

    Args:
        domains: The data. The scores use the test set of the source and the training inputs of the
            target.
        selection: Object with `scores`, `samples` and `keep`; see `train_run`.
        seed: Seed of the choice of examples.

    Raises:
        ValueError: If a score is unknown, if `keep` is not among the scores, or if both test sets
            are equal, because the scores would then see the labels of the target.
    """

    saved_attributes = ("best", "best_weights")

    def __init__(self, domains: DomainPair, selection: Any, seed: int):
        super().__init__()
        self.scores = {} if domains.is_regression else resolve_scores(selection.scores)
        check_integer("selection.samples", selection.samples, low=1)
        rng = np.random.default_rng(seed)
        (inputs, labels), (target, _) = domains.source_test, domains.target_test
        source_rows = np.sort(rng.permutation(len(labels))[: selection.samples])
        target_rows = np.sort(rng.permutation(len(domains.target_train))[: selection.samples])
        if len(inputs) == len(target) and np.array_equal(inputs[source_rows], target[source_rows]):
            raise ValueError(
                "Expected another test set for the target, because the scores read the labels of "
                "the source's test set. Received: the same test set for both domains. Use "
                "selection=none or another target."
            )
        self.source = inputs[source_rows], labels[source_rows]
        self.target = domains.target_train[target_rows]
        self.keep = check_choice("selection.keep", selection.keep, (None, *self.scores))
        self.best, self.best_weights = -np.inf, None

    def on_epoch_end(self, epoch, logs=None):
        if not self.scores:  # regression
            return
        with final_weights(self.model):
            values = compute_scores_or_worst(
                self.model, source=self.source, target=self.target, scores=self.scores
            )
            logs.update({f"selection/{name}": value for name, value in values.items()})
            # The first epoch counts even if its score is -inf.
            if self.keep and (self.best_weights is None or values[self.keep] > self.best):
                self.best = values[self.keep]
                self.best_weights = [to_numpy(weight) for weight in self.model.weights]

    def on_train_end(self, logs=None):
        if self.best_weights is not None:
            self.model.set_weights(self.best_weights)

    def measure(self, model: Any) -> tuple[dict[str, float], Outputs]:
        """Returns InfoMax and the result of a domain probe for a trained model, and its outputs.

        In regression, there is no InfoMax.
        """
        outputs = compute_outputs(model, source=self.source, target=self.target, mixed=False)
        measures = {"selection/info_max": info_max(outputs)} if self.scores else {}
        if min(len(outputs.source_features), len(outputs.target_features)) >= FOLDS:
            probe = probe_domains(outputs.source_features, outputs.target_features)
            measures |= {f"probe/{name}": value for name, value in probe._asdict().items()}
        return measures, outputs
