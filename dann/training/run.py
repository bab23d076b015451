"""A training run and the directory that it leaves behind."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from matplotlib import rc_context

from dann.adaptation import AdversarialModel
from dann.adaptation.fitting import check_optimizer, count_devices, count_replicas
from dann.data import DomainPair
from dann.diagnostics import Diagnostics
from dann.training import predictions, run_figures
from dann.training.checkpoints import Checkpoints, atomic_write, lock_directory
from dann.training.devices import describe_hardware, get_process_position
from dann.training.preparation import Trainer, check_trainer, scale_remark
from dann.training.resumable_fit import fit
from dann.training.run_callbacks import Clock, EpochLines, HostModel, OracleCurve, RunScores
from dann.training.run_directory import RunDirectory


class Run:
    """Trains a model, beside a baseline if there is one, and writes the run directory.

    It writes checkpoints, the classifier, the summary, figures, the classes that it predicts for
    all of the target's examples and, if there are scores, those of some of them in a form by which
    runs are compared. Callbacks write metrics and TensorBoard events.

    The flat keys of the summary are `method` (its name), `oracle` (whether it learns from the
    target's labels), `source`, `target`, `class_names`, `nuisances` if there are any, `seed`,
    `steps`, `hardware`, `backend`, `seconds` (of training), `cpu_seconds` (of training, all
    threads), `source/accuracy`, `target/accuracy`, the same as `.../balanced_accuracy`, the
    label-free scores as `selection/<name>` and, with a baseline, its times, accuracies and InfoMax
    under `source_only/`, beside what `dann.selection.probe_domains` says of its features as
    `source_only/probe/<name>`.
    Accuracies are shares in [0, 1] on the test sets, of the weights that the training ends with.
    Those of the target are an oracle: nothing is chosen by them, and a target whose test set has no
    labels has none.

    With nuisances there is one table, the source, and the baseline is the method at strength 0.
    `leakage` has by nuisance what `dann.diagnostics.leakage` finds on the test set.

    The summary and the classifier are written before the figures. A figure that cannot be drawn is
    a warning.

    It prints a line an epoch and a table at the end.

    Args:
        directory: Where to write; it is created if it does not exist.
        domains: The data. An oracle, such as `TargetOnly`, trains on `domains.oracle()`.
        trainer: How long and how to train.
        seed: Seed of the batches.
        model: Compiled model.
        baseline: Compiled model to compare with, which is trained first on the same batches; or the
            summary of another run, whose `source_only/...` is taken over. Defaults to `None`.
        callbacks: Keras callbacks for the training of `model`.
        selection: Object with `scores`, names of `dann.selection.SCORES` that are computed after
            every epoch of `model`; `samples`, the largest number of examples of each domain to
            compute them on; and `keep`, the score whose best epoch gives the final weights, or
            `None` for the last epoch. The scores use the source's test set and the target's
            training inputs. Defaults to `None`: no scores.
        resume: Whether to resume from the checkpoints in the directory, if there are any. Defaults
            to `False`, which deletes them.
        config: What the run is made of, YAML by file name, which is kept in `.hydra/`. Defaults to
            nothing.
        name: What to call the method. Defaults to `None`: the name of the model's class.

    Raises:
        ValueError: If `steps` is not a multiple of `steps_per_epoch`, the source does not fill a
            batch, the devices cannot split it evenly, the optimizer does not work on several of
            TensorFlow's, or there are no labels for an oracle or its curve.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        domains: DomainPair,
        trainer: Trainer,
        seed: int,
        model: AdversarialModel,
        baseline: AdversarialModel | Mapping[str, Any] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        selection: Any = None,
        resume: bool = False,
        config: Mapping[str, str] | None = None,
        name: str | None = None,
    ):
        check_trainer(trainer)
        self.directory = RunDirectory(directory)
        self.domains = domains
        self.seed = seed
        self.model, self.baseline = model, baseline
        self.callbacks = list(callbacks)
        self.trainer = trainer
        self.steps_per_epoch = min(trainer.steps, trainer.steps_per_epoch)
        self.resume, self.config = resume, config or {}
        self.name = name or type(model).__name__
        self.pairs = self._batches(model)
        self.pairs.check_devices(count_devices(model))
        check_optimizer(model.optimizer, count_replicas(model))
        for callback in self.callbacks:
            if isinstance(callback, Diagnostics) and callback.data is None:
                callback.data = self._batches(model, whole=True)[0]
        self.host, self.clock = HostModel(model), Clock()
        self.watchers: list[keras.callbacks.Callback] = []  # later callbacks see the scores
        self.keep, self.scores = selection.keep if selection else None, None
        if selection and (selection.scores or selection.keep):
            self.scores = RunScores(self.host, domains, selection, seed)
            self.watchers.append(self.scores)
        if trainer.oracle_curve:
            if domains.target_test[1] is None:
                raise ValueError("trainer.oracle_curve needs labels. Received: a target without")
            target, curve = domains.target_test, self.directory.oracle_file
            self.watchers.append(OracleCurve(self.host, target, self.clock, curve))

    def train(self) -> dict[str, Any]:
        """Trains, evaluates and reports; prints a table and returns the summary.

        Raises:
            BlockingIOError: If another process writes to the directory.
            FloatingPointError: If a loss, a weight or an output is not finite.
            ValueError: If it cannot resume; see `dann.training.fit`.
        """
        with lock_directory(self.directory.path):
            return self._train()

    def _train(self):
        if not (self.resume and self.directory.has_checkpoints()):
            self._begin_anew()
        summary = self._facts()
        if remark := scale_remark(self.model.backbone, self.domains.source_train[0]):
            print(f"warning: {remark}", file=sys.stderr)
        views = [self._train_baseline(summary)]
        print(f"{self.domains.name}: {self.name}, {self.trainer.steps} steps")
        callbacks = [*self.watchers, EpochLines(), *self.callbacks]
        folder = self.directory.checkpoints
        history = self._fit(self.model, self.pairs, folder, self.clock, callbacks).history
        accuracies, predicted = self._test(self.host)
        adapts = self.model.terms or self.model.regularizers or self.model.oracle
        alone = {} if adapts else self._of_features(self.host)
        summary.update({**_times(self.clock), **accuracies, **alone, **self._final_scores(history)})
        self.directory.save_classifier(self.model.classifier)
        predict = partial(self.host.predict, self.model.classifier)
        table = predictions.predict_target(self.domains, predict)
        self.directory.write_predictions(table)
        self.directory.write_summary(summary)
        self._tell(summary, history, table)
        title = _title(self.name, accuracies)
        views.append((title, run_figures.features_of(self.host, self.domains)))
        self._draw(history, views, predicted)
        print(f"Written to {self.directory}")
        return summary

    def _facts(self):
        """What is known of a run before it trains, as the beginning of its summary."""
        facts = {
            "method": self.name,
            "oracle": self.model.oracle,
            "source": self.domains.source,
            "target": self.domains.target,
            "class_names": self.domains.class_names,
            "seed": self.seed,
            "steps": self.trainer.steps,
            "hardware": describe_hardware(),
            "backend": keras.backend.backend(),
        }
        if self.domains.nuisances:
            facts["nuisances"] = self.domains.nuisances.kinds
        return facts

    def _train_baseline(self, summary):
        """Adds what a baseline comes to; returns a title and features to draw, else the model's."""
        if isinstance(self.baseline, Mapping):
            shared = {k: v for k, v in self.baseline.items() if k.startswith("source_only/")}
            summary.update(shared)
        if self.baseline is None or isinstance(self.baseline, Mapping):
            return "before training", run_figures.features_of(self.host, self.domains)
        name = "strength 0" if self.domains.nuisances else "source only"
        print(f"{self.domains.name}: {name}, {self.trainer.steps} steps")
        host, clock = HostModel(self.baseline), Clock()
        pairs, folder = self._batches(self.baseline), self.directory.baseline_checkpoints
        self._fit(self.baseline, pairs, folder, clock, [EpochLines()])
        accuracies, _ = self._test(host)
        told = {**_times(clock), **accuracies, **self._of_features(host)}
        summary.update({f"source_only/{key}": value for key, value in told.items()})
        return _title(name, accuracies), run_figures.features_of(host, self.domains)

    def _tell(self, summary, history, table):
        """Prints the results, and whether the source alone had better be kept."""
        nuisances = self.domains.nuisances
        report = predictions.nuisance_report if nuisances else predictions.accuracy_table
        print(report(summary))
        for domain in ("source", "target"):
            if (share := summary.get(f"{domain}/accuracy")) is not None:
                count = len(getattr(self.domains, f"{domain}_test")[0])
                print(f"{domain} accuracy: {share:.1%} (of {count} test examples)")
        if "target/accuracy" not in summary and not nuisances:
            print("target accuracy: unknown (no labels)")
            print(predictions.label_free_table(summary, table))
        epochs = summary.get("kept_step", self.trainer.steps) // self.steps_per_epoch
        domain_accuracy = history.get("domain/accuracy", ())[:epochs]
        if remark := predictions.source_only_remark(summary, domain_accuracy):
            print(remark)

    def _begin_anew(self):
        """Deletes what an earlier run left. At no moment do old checkpoints lie by a new config."""
        self.directory.discard_results()
        for folder in (self.directory.checkpoints, self.directory.baseline_checkpoints):
            Checkpoints(folder).discard()
        self._begin()

    def _begin(self, logs=None):
        """Marks the run as unfinished, once all checks of its arguments have passed."""
        self.directory.discard_summary()
        self.directory.write_config(self.config)

    def _batches(self, model, whole=False):
        """The training pairs, in the same order for each model; in each process its part."""
        domains = self.domains.oracle() if model.oracle else self.domains
        number, count = (0, 1) if whole else get_process_position()
        return domains.batches(
            self.trainer.batch_size, self.seed, process_id=number, num_processes=count
        )

    def _fit(self, model, pairs, folder, clock, callbacks):
        begins = keras.callbacks.LambdaCallback(on_train_begin=self._begin)
        return fit(
            model,
            pairs,
            folder,
            epochs=self.trainer.steps // self.steps_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            callbacks=[begins, clock, *callbacks],
            check_every=self.trainer.check_every,
            resume=self.resume,
            verbose=0,
        )

    def _test(self, host):
        """The accuracies on the test sets that have labels, and the predicted classes."""
        tests = {"source": self.domains.source_test, "target": self.domains.target_test}
        found, predicted = {}, {}
        for domain, (inputs, labels) in tests.items():
            if labels is None:
                continue
            logits = host.predict(host.model.classifier, inputs)
            if not np.isfinite(logits).all():
                raise FloatingPointError(f"Logits of the {domain}'s test set must be finite")
            predicted[domain] = np.argmax(logits, axis=-1)
            for name, value in predictions.accuracies(labels, predicted[domain]).items():
                found[f"{domain}/{name}"] = value
        if self.domains.nuisances:
            found["leakage"] = predictions.leakage_of_test(host, self.domains, self.seed)
        return found, predicted

    def _of_features(self, host):
        """What the scores' examples tell of a model that was trained on the source alone."""
        return self.scores.of_source_only(host) if self.scores else {}

    def _final_scores(self, history):
        """The label-free scores of the weights that the training ended with."""
        names = [name for name in history if name.startswith("selection/")]
        if not self.keep:
            return {name: float(history[name][-1]) for name in names}
        epoch = int(np.argmax(history[f"selection/{self.keep}"]))
        kept = {"kept_by": self.keep, "kept_step": (epoch + 1) * self.steps_per_epoch}
        return {name: float(history[name][epoch]) for name in names} | kept

    def _draw(self, history, views, predicted):
        figures = {
            "samples": partial(run_figures.save_samples, self.domains),
            "curves": partial(run_figures.save_curves, history, self.steps_per_epoch),
            "confusion": partial(run_figures.save_confusion, self.domains, predicted),
            "features": partial(run_figures.save_features, views, self.domains, self.seed),
        }
        for name in ("samples", "features") if self.domains.nuisances else ():
            del figures[name]  # which show two domains
        for name, save in figures.items():
            try:
                with (
                    atomic_write(self.directory.figures / f"{name}.png") as path,
                    rc_context({"text.parse_math": False}),  # a name may hold a dollar sign
                ):
                    save(path)
            except Exception as error:  # a finished training is a result without it
                print(f"warning: no figure {name}: {error}", file=sys.stderr)


def _times(clock):
    return {"seconds": round(clock.seconds, 2), "cpu_seconds": round(clock.cpu_seconds, 2)}


def _title(name, found):
    shares = {domain: found.get(f"{domain}/accuracy") for domain in ("source", "target")}
    told = [f"{domain} {share:.1%}" for domain, share in shares.items() if share is not None]
    return f"{name}: {', '.join(told)}" if told else name
