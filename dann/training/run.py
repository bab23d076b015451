"""A training run and the directory that it leaves behind."""

import json
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import keras

from dann.adaptation import AdversarialModel
from dann.data import DomainPair
from dann.training import figures
from dann.training.table import accuracy_table


def start(seed: int, precision: str = "float32") -> None:
    """Begins anew: clears Keras' state, then sets the precision and every seed.

    Args:
        seed: Seed of Python, NumPy and the backend.
        precision: Keras dtype policy, such as `"float32"` or `"mixed_bfloat16"`.
    """
    keras.utils.clear_session()
    keras.config.set_dtype_policy(precision)
    keras.utils.set_random_seed(seed)


def compile_model(
    model: AdversarialModel, optimizer: keras.optimizers.Optimizer, trainer: Any
) -> AdversarialModel:
    """Compiles `model` for classification and returns it.

    Args:
        model: Model to train.
        optimizer: Any Keras optimizer.
        trainer: Object with `steps_per_execution`, `jit_compile` and `run_eagerly`.
    """
    model.compile(
        optimizer=optimizer,
        metrics=["accuracy"],
        steps_per_execution=trainer.steps_per_execution,
        jit_compile=trainer.jit_compile,
        run_eagerly=trainer.run_eagerly,
    )
    return model


class Run:
    """Trains a model, beside a baseline if there is one, and writes the run directory.

    The directory holds `metrics.csv` and TensorBoard events (by the callbacks), `figures/`,
    `classifier.keras` and `summary.json`, whose flat keys are `method`, `source`, `target`, `seed`,
    `steps`, `seconds` (of training), `source/accuracy`, `target/accuracy` and, with a baseline, the
    same four of it under `source_only/`. Accuracies are shares in [0, 1], after the last step, on
    the test sets. Those of the target are an oracle: nothing was chosen by them.

    Args:
        directory: Where to write; made if it is not there.
        domains: The data.
        trainer: Object with `steps`, `steps_per_epoch` and `batch_size`.
        seed: Seed of the batches.

    Raises:
        ValueError: If `steps` is not a multiple of `steps_per_epoch`, or the source does not fill a
            batch.
    """

    def __init__(self, directory: str | pathlib.Path, domains: DomainPair, trainer: Any, seed: int):
        self.directory = pathlib.Path(directory)
        self.domains = domains
        self.seed = seed
        self.steps = trainer.steps
        self.steps_per_epoch = min(trainer.steps, trainer.steps_per_epoch)
        if self.steps < 1 or self.steps % self.steps_per_epoch:
            raise ValueError(
                "trainer.steps must be a multiple of trainer.steps_per_epoch, above 0. "
                f"Received: {trainer.steps} steps, {trainer.steps_per_epoch} an epoch"
            )
        self.batch_size = trainer.batch_size
        domains.batches(trainer.batch_size, seed)  # what cannot be batched is refused here

    def train(
        self,
        model: AdversarialModel,
        baseline: AdversarialModel | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, Any]:
        """Trains, evaluates and reports; prints a table and returns the summary.

        Args:
            model: Compiled model.
            baseline: Compiled model to compare with; trained first on the same batches.
            callbacks: Keras callbacks for the training of `model`.
        """
        (self.directory / "figures").mkdir(parents=True, exist_ok=True)
        summary = self._describe(model)
        before, label = model.backbone, "before training"
        if baseline is not None:
            print(f"{self.domains.name}: source only, {self.steps} steps")
            scores = self._fit_and_score(baseline)[0]
            summary.update({f"source_only/{key}": value for key, value in scores.items()})
            before, label = baseline.backbone, "source only"
        views = [(label, figures.features_of(before, self.domains))]
        print(f"{self.domains.name}: {type(model).__name__}, {self.steps} steps")
        scores, history = self._fit_and_score(model, callbacks)
        summary.update(scores)
        views.append((type(model).__name__, figures.features_of(model.backbone, self.domains)))
        self._write(model, summary, history, views)
        print(accuracy_table(summary))
        print(f"Written to {self.directory}")
        return summary

    def _describe(self, model):
        return {
            "method": type(model).__name__,
            "source": self.domains.source,
            "target": self.domains.target,
            "seed": self.seed,
            "steps": self.steps,
        }

    def _fit_and_score(self, model, callbacks=()):
        started = time.perf_counter()
        history = model.fit(
            self.domains.batches(self.batch_size, self.seed),  # the same order for each model
            epochs=self.steps // self.steps_per_epoch,
            steps_per_epoch=self.steps_per_epoch,
            shuffle=False,  # the pairs are shuffled
            callbacks=list(callbacks),
            verbose=1 if sys.stdout.isatty() else 2,
        )
        scores = {"seconds": round(time.perf_counter() - started, 2)}
        tests = {"source": self.domains.source_test, "target": self.domains.target_test}
        for domain, (inputs, labels) in tests.items():
            logs = model.evaluate(inputs, labels, batch_size=256, verbose=0, return_dict=True)
            scores[f"{domain}/accuracy"] = float(logs["accuracy"])
        return scores, history.history

    def _write(self, model, summary, history, views):
        model.classifier.save(self.directory / "classifier.keras")
        (self.directory / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        folder = self.directory / "figures"
        figures.save_samples(self.domains, folder / "samples.png")
        figures.save_curves(history, self.steps_per_epoch, folder / "curves.png")
        figures.save_features(views, self.domains, self.seed, folder / "features.png")
