"""A training run and the directory that it leaves behind."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.replicas import check_optimizer, devices_of, replicas_of
from dann.adaptation.shared_weights import in_first_group
from dann.data import DomainPair
from dann.diagnostics import Diagnostics
from dann.training import run_figures
from dann.training.accuracy_table import accuracy_table
from dann.training.callbacks import Clock, OracleCurve, on_final_weights
from dann.training.checkpoints import Checkpoints
from dann.training.directory_claim import claiming
from dann.training.files_on_disk import replacing
from dann.training.hardware import hardware
from dann.training.non_finite import StopOnNonFinite, check_finite
from dann.training.one_process import alone
from dann.training.process_group import joined
from dann.training.resumable_fit import fit
from dann.training.run_directory import RunDirectory
from dann.training.run_scores import selection_scores, target_classes
from dann.training.run_settings import check_checkpoint, check_trainer

_TEST_BATCH = 256


class Run:
    """Trains a model, beside a baseline if there is one, and writes the run directory.

    It writes figures, the classifier, the summary and, if there are scores, the classes that it
    predicts for some of the target's training inputs, by which runs are compared. Callbacks write
    metrics, TensorBoard events and checkpoints.

    The flat keys of the summary are `method`, `oracle` (whether it learns from the target's
    labels), `source`, `target`, `class_names`, `seed`, `steps`, `hardware`, `backend`, `seconds`
    (of training), `cpu_seconds` (of training, all threads), `source/accuracy`, `target/accuracy`,
    the label-free scores as `selection/<name>` and, with a baseline, its times and accuracies under
    `source_only/`. Accuracies are shares in [0, 1] on the test sets, of the weights that the
    training ends with. Those of the target are an oracle: nothing is chosen by them.

    Args:
        directory: Where to write; it is created if it does not exist.
        domains: The data. An oracle, such as `TargetOnly`, trains on `domains.oracle()`.
        trainer: Object with `steps`, `steps_per_epoch`, `batch_size`, `oracle_curve` (whether to
            write the target accuracy after each epoch to a file of its own) and `check_every` (the
            number of steps between checks for NaN or infinite losses and weights).
        seed: Seed of the batches.
        model: Compiled model.
        baseline: Compiled model to compare with; trained first on the same batches. Defaults to
            `None`.
        callbacks: Keras callbacks for the training of `model`.
        selection: Object with `scores`, names of `dann.selection.SCORES` that are computed after
            every epoch of `model`; `samples`, the largest number of examples of each domain to
            compute them on; and `keep`, the score whose best epoch gives the final weights, or
            `None` for the last epoch. The scores use the source's test set and the target's
            training inputs. Defaults to `None`: no scores.
        checkpoint: Object with `every` and `keep`, as `dann.training.fit` takes them. Defaults to
            `None`: no checkpoints.
        resume: Whether to resume from the checkpoints in the directory, if there are any. Defaults
            to `False`, which deletes them.
        settings: The run's settings, saved in the directory so that a resumed run can be compared
            with them. Defaults to `None`: nothing is saved.

    Raises:
        ValueError: If `steps` is not a multiple of `steps_per_epoch`, the source does not fill a
            batch, the devices cannot split it evenly, the optimizer does not work on several of
            TensorFlow's, or an oracle has no labels to learn from.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        domains: DomainPair,
        trainer: Any,
        seed: int,
        model: AdversarialModel,
        baseline: AdversarialModel | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        selection: Any = None,
        checkpoint: Any = None,
        resume: bool = False,
        settings: Mapping[str, Any] | None = None,
    ):
        self.directory = RunDirectory(directory)
        self.domains = domains
        self.seed = seed
        self.model = model
        self.baseline = baseline
        self.callbacks = list(callbacks)
        check_trainer(trainer)
        self.steps = trainer.steps
        self.steps_per_epoch = min(trainer.steps, trainer.steps_per_epoch)
        self.batch_size = trainer.batch_size
        self.group = joined()
        batches = self._batches(model)  # raises an error if the data cannot be batched
        batches.check_devices(devices_of(model))
        check_optimizer(model.optimizer, replicas_of(model))
        self._give_a_batch()
        self.oracle_curve = trainer.oracle_curve
        if checkpoint is not None:
            check_checkpoint(checkpoint)
        self.checkpoint, self.resume, self.settings = checkpoint, resume, settings
        inputs = {
            "source": domains.source_train[0],
            "target": domains.target_train,
            "source's test set": domains.source_test[0],
            "target's test set": domains.target_test[0],
        }
        self.finite = StopOnNonFinite(trainer.check_every, inputs)
        self.keep = selection.keep if selection else None
        self.scores = selection_scores(domains, selection, seed)
        self.samples = selection.samples if selection else 0

    @claiming
    def train(self) -> dict[str, Any]:
        """Trains, evaluates and reports; prints a table and returns the summary.

        Of several processes that train together all but process 0 only train, and return nothing.
        """
        if self.group is not None and not self.group.leads:
            for model in filter(None, (self.baseline, self.model)):
                self._fit(model, self.directory.checkpoints, Clock())
            return {}
        if not (self.resume and self.directory.has_checkpoints()):
            self._begin_anew()
        self.directory.figures.mkdir(parents=True, exist_ok=True)
        model, baseline = self.model, self.baseline
        summary = self._describe()
        before, label = model.backbone, "before training"
        if baseline is not None:
            print(f"{self.domains.name}: source only, {self.steps} steps")
            folder = self.directory.baseline_checkpoints
            scores = self._fit_and_score(baseline, folder, Clock())[0]
            summary.update({f"source_only/{key}": value for key, value in scores.items()})
            before, label = baseline.backbone, "source only"
        with self._alone(baseline or model):
            views = [(label, run_figures.features_of(before, self.domains))]
        print(f"{self.domains.name}: {type(model).__name__}, {self.steps} steps")
        clock = Clock()
        callbacks = [*self._watchers(model.optimizer, clock), *self.callbacks]
        folder = self.directory.checkpoints
        scores, history, predicted = self._fit_and_score(model, folder, clock, callbacks)
        summary.update(scores)
        with self._alone(model):
            features = run_figures.features_of(model.backbone, self.domains)
            views.append((type(model).__name__, features))
            self._write(summary, history, views, predicted)
        print(accuracy_table(summary))
        print(f"Written to {self.directory}")
        return summary

    def _begin_anew(self):
        """Deletes what an earlier run left; prints it if the run could have resumed from that."""
        finished = self.directory.is_finished()
        self.directory.discard_results()
        folders = self.directory.checkpoints, self.directory.baseline_checkpoints
        deleted = [path for folder in folders for path in Checkpoints(folder).discard()]
        # At no moment do old checkpoints lie beside new settings, or new ones beside old settings.
        self._begin()
        if deleted and not finished:
            print(
                f"Starting again. Deleted {len(deleted)} checkpoints of an unfinished run, the "
                f"newest {deleted[0]}; resume=true would have continued from it",
                flush=True,
            )

    def _begin(self, logs=None):
        """Marks the run as unfinished, once all checks of its arguments have passed."""
        self.directory.discard_summary()
        if self.settings is not None:
            self.directory.keep_settings(self.settings)

    def _describe(self):
        return {
            "method": type(self.model).__name__,
            "oracle": self.model.oracle,
            "source": self.domains.source,
            "target": self.domains.target,
            "class_names": self.domains.class_names,
            "seed": self.seed,
            "steps": self.steps,
            "hardware": hardware(),
            "backend": keras.backend.backend(),
        }

    def _batches(self, model, whole=False):
        domains = self.domains.oracle() if model.oracle else self.domains
        part = {}
        if self.group is not None and not whole:
            part = {
                "process_id": self.group.process_id,
                "num_processes": self.group.num_processes,
            }
        # the same order for each model
        return domains.batches(self.batch_size, self.seed, **part)

    def _give_a_batch(self):
        """Gives the first batch of the training to diagnostics that have no data."""
        for callback in self.callbacks:
            if isinstance(callback, Diagnostics) and callback.data is None:
                callback.data = self._batches(self.model, whole=True)[0]

    def _watchers(self, optimizer, clock):
        """The callbacks that evaluate the model after every epoch; later ones see the scores."""
        watchers: list[keras.callbacks.Callback] = [] if self.scores is None else [self.scores]
        if self.keep:
            best = {"monitor": f"selection/{self.keep}", "mode": "max", "patience": self.steps}
            watchers.append(keras.callbacks.EarlyStopping(**best, restore_best_weights=True))
        if self.oracle_curve:
            target = self.domains.test_batches("target", _TEST_BATCH)
            watchers.append(OracleCurve(target, self.directory, clock))
        return on_final_weights(optimizer, watchers)

    def _fit(self, model, folder, clock, callbacks=()):
        begins = keras.callbacks.LambdaCallback(on_train_begin=self._begin)
        return fit(
            model,
            self._batches(model),
            folder,
            epochs=self.steps // self.steps_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            callbacks=[begins, clock, self.finite, *callbacks],
            every=self.checkpoint and self.checkpoint.every,
            keep=self.checkpoint.keep if self.checkpoint else 1,
            resume=self.resume,
            verbose=1 if sys.stdout.isatty() else 2,
        )

    def _fit_and_score(self, model, folder, clock, callbacks=()):
        history = self._fit(model, folder, clock, callbacks).history
        with self._alone(model):
            return self._score(model, history, clock)

    def _alone(self, model):
        """The context in which process 0 of several computes with a model."""
        return in_first_group(model) if self.group is None else alone(model)

    def _score(self, model, history, clock):
        scores = {"seconds": round(clock.seconds, 2), "cpu_seconds": round(clock.cpu_seconds, 2)}
        predicted = {}
        tests = {"source": self.domains.source_test, "target": self.domains.target_test}
        for domain, (_, labels) in tests.items():
            batches = self.domains.test_batches(domain, _TEST_BATCH)
            logits = model.predict(batches, verbose=0)
            check_finite(f"Logits of the {domain}'s test set", logits)
            predicted[domain] = np.argmax(logits, axis=-1)
            scores[f"{domain}/accuracy"] = float(np.mean(predicted[domain] == labels))
        return {**scores, **self._final_scores(history)}, history, predicted

    def _final_scores(self, history):
        """The label-free scores of the weights that the training ended with."""
        names = [name for name in history if name.startswith("selection/")]
        if not (self.keep and names):
            return {name: float(history[name][-1]) for name in names}
        epoch = int(np.argmax(history[f"selection/{self.keep}"]))
        kept = {"kept_by": self.keep, "kept_step": (epoch + 1) * self.steps_per_epoch}
        return {name: float(history[name][epoch]) for name in names} | kept

    def _write(self, summary, history, views, predicted):
        """Writes the results, the summary last, because it marks the run as finished."""
        self.directory.save_classifier(self.model.classifier)
        if self.scores is not None:
            found = target_classes(self.model, self.domains, self.samples)
            self.directory.write_target_classes(*found)
        figures = {
            "samples": partial(run_figures.save_samples, self.domains),
            "curves": partial(run_figures.save_curves, history, self.steps_per_epoch),
            "confusion": partial(run_figures.save_confusion, self.domains, predicted),
            "features": partial(run_figures.save_features, views, self.domains, self.seed),
        }
        for name, save in figures.items():
            with replacing(self.directory.figures / f"{name}.png") as path:
                save(path)
        self.directory.write_summary(summary)
