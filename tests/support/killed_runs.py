"""Runs that are killed at chosen moments and go on; run as a program by the tests.

    python killed_runs.py <folder> <kind of run> <number of kills>

Importing the libraries takes most of the time of a short run, so this process imports them once
and forks a child for each start. A child kills itself by SIGKILL when it comes to its moment. It
prints what was killed when, and whether the bits at the end are those of a run without a kill.
"""

import contextlib
import csv
import functools
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import dann
from dann import training
from dann.adaptation.pair_classifier import PairClassifier
from dann.config.schema import CheckpointConfig, SelectionConfig, TrainerConfig
from dann.data import DomainPair
from dann.diagnostics import Diagnostics
from dann.networks import binary_lenet_backbone, mlp_backbone
from dann.optimizers import Bop, FlipRatio, PerVariable
from dann.schedules import GaninDecay, GaninSchedule
from dann.training import checkpoints, resumable_callbacks, run_figures
from dann.training.run import Run

TRAINER = TrainerConfig(steps=12, steps_per_epoch=4, batch_size=6, oracle_curve=True)
SELECTION = SelectionConfig(scores=["info_max"], samples=20, keep="info_max")


class Moments:
    """Counts the moments of a run by kind, and ends it by SIGKILL at the one it is told."""

    def __init__(self, kill_at=None):
        self.kill_at = kill_at
        self.passed = {}

    def pass_by(self, kind):
        number = self.passed[kind] = self.passed.get(kind, 0) + 1
        if (kind, number) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner, name, kind):
        """Replaces a function by one with a moment before it and one after it."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def watched(*args, **kwargs):
            self.pass_by(kind)
            result = original(*args, **kwargs)
            self.pass_by(kind)
            return result

        return mock.patch.object(owner, name, watched)

    def draw(self, *args):
        """Draws a figure of two halves, with a moment between them."""
        path = pathlib.Path(args[-1])
        path.write_bytes(b"first half")
        self.pass_by("figures")
        path.write_bytes(b"first half, second half")

    @contextlib.contextmanager
    def watching(self):
        steps = resumable_callbacks.ResumableCallbacks
        with contextlib.ExitStack() as stack:
            for owner, name, kind in (
                (DomainPair, "__post_init__", "data"),
                (DomainPair, "batches", "data"),
                (PairClassifier, "compute_loss", "tracing"),
                (steps, "on_train_batch_end", "step"),
                (steps, "on_epoch_end", "epoch"),
                (checkpoints, "flush_to_disk", "checkpoint"),
                (pathlib.Path, "rename", "checkpoint"),
                (os, "link", "checkpoint"),
                (shutil, "rmtree", "checkpoint"),
                (training.RunDirectory, "save_classifier", "figures"),
                (training.RunDirectory, "write_summary", "figures"),
            ):
                stack.enter_context(self.around(owner, name, kind))
            for name in ("samples", "curves", "confusion", "features"):
                stack.enter_context(mock.patch.object(run_figures, f"save_{name}", self.draw))
            yield


def tiny_domains(shape=(5,), num_sources=1):
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    means = rng.normal(size=(3, *shape))
    scale = 100 if len(shape) == 3 else 1
    inputs = (scale * (means[labels] + rng.normal(size=(30, *shape)))).astype("float32")
    numbers = np.arange(30) % num_sources if num_sources > 1 else None
    other = inputs + 0.3 * scale
    tests = (inputs[:15] * 1.1, labels[:15]), (other[:15] * 1.1, labels[:15])
    return DomainPair(
        "a", "b", (inputs, labels), tests[0], other, tests[1], 3, source_domain=numbers
    )


def dropout_backbone():
    entry = keras.Input((5,))
    hidden = keras.layers.Dense(8, activation="relu")(entry)
    hidden = keras.layers.BatchNormalization()(hidden)
    return keras.Model(entry, keras.layers.Dropout(0.3)(hidden))


def plain(method, **kwargs):
    kwargs.setdefault("strength", GaninSchedule(TRAINER.steps))
    kwargs = {key: value for key, value in kwargs.items() if value is not None}
    return method(mlp_backbone((5,), hidden_units=(8,)), num_classes=3, **kwargs)


def everything():
    noise = keras.layers.GaussianNoise(0.2)
    return dann.DANN(
        dropout_backbone(),
        num_classes=3,
        strength=GaninSchedule(TRAINER.steps),
        regularizers=[dann.MCC(0.1)],
        augmentation={"source": [noise], "target": [keras.layers.GaussianNoise(0.1)]},
    )


def second_stage():
    return dann.DIRTT.from_model(plain(dann.DANN), radius=0.5, refresh_steps=3)


def binary():
    return dann.DANN(binary_lenet_backbone((16, 16, 3), filters=(2, 3)), num_classes=3)


def decayed_sgd(**kwargs):
    return keras.optimizers.SGD(GaninDecay(0.02, TRAINER.steps), momentum=0.9, **kwargs)


def bop_and_adam():
    return PerVariable({"binary": Bop(1e-2, 1e-6)}, rest=keras.optimizers.Adam(1e-2))


KINDS = {
    "dann": (lambda: plain(dann.DANN), decayed_sgd),
    "cdan": (lambda: plain(dann.CDAN, max_units=7), decayed_sgd),
    "mcd": (lambda: plain(dann.MCD), decayed_sgd),
    "wdgrl": (lambda: plain(dann.WDGRL), lambda: keras.optimizers.Adam(1e-2)),
    "everything": (everything, lambda: keras.optimizers.Adam(1e-2, use_ema=True)),
    "sdat": (lambda: plain(dann.DANN, task_radius=0.05), decayed_sgd),
    "mdan": (lambda: plain(dann.MDAN, num_sources=2), decayed_sgd),
    "dirt_t": (second_stage, lambda: keras.optimizers.Adam(1e-3)),
    "bop": (binary, bop_and_adam),
    "mixed_float16": (lambda: plain(dann.DANN), decayed_sgd),
}


def train(folder, kind):
    """One start of the run, from the data to the summary."""
    build, optimizer = KINDS[kind]
    precision = kind if kind == "mixed_float16" else "float32"
    training.start(1, precision)
    image = kind == "bop"
    domains = tiny_domains((16, 16, 3) if image else (5,), 2 if kind == "mdan" else 1)
    baseline = None
    if kind == "dann":
        baseline = plain(dann.SourceOnly, strength=None)
        training.compile_model(baseline, decayed_sgd(), TRAINER)
        training.start(1, precision)
    model = training.compile_model(build(), optimizer(), TRAINER)
    callbacks = [keras.callbacks.CSVLogger(folder / "metrics.csv")]
    callbacks.append(keras.callbacks.TensorBoard(folder / "tensorboard"))
    if kind == "dann":
        logs = str(folder / "tensorboard/diagnostics")
        callbacks.insert(0, Diagnostics(("conflict",), every=3, log_dir=logs))
    if image:
        callbacks.insert(0, FlipRatio(every=3))
    settings = {"checkpoint": CheckpointConfig(every=3), "resume": True, "selection": SELECTION}
    if baseline is not None:
        settings["baseline"] = baseline
    trainer = TRAINER
    Run(folder, domains, trainer, 1, model, callbacks=callbacks, **settings).train()
    parts = [model] if baseline is None else [model, baseline]
    variables = [v for one in parts for v in (*one.variables, *one.optimizer.variables)]
    np.savez(folder / "end.npz", *map(keras.ops.convert_to_numpy, variables))


def start_apart(folder, kind, kill_at):
    """Runs `train` in a child; returns its status and the moments that it has passed."""
    with tempfile.NamedTemporaryFile("r") as log:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                moments = Moments(kill_at)
                with moments.watching(), open(folder.with_suffix(".txt"), "a") as output:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                    train(folder, kind)
                pathlib.Path(log.name).write_text(json.dumps(moments.passed))
                status = 0
            finally:
                if status:
                    import traceback

                    traceback.print_exc()
                    sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = log.read()
    return status, json.loads(text) if text else {}


def without_times(rows):
    names = rows[0]
    kept = [i for i, name in enumerate(names) if "seconds" not in name]
    return [[row[i] for i in kept] for row in rows]


def events(folder):
    """The scalars of TensorBoard by tag: steps and values."""
    found = {}
    for path in sorted({file.parent for file in folder.rglob("*tfevents*")}):
        accumulator = EventAccumulator(str(path), size_guidance={"tensors": 0, "scalars": 0})
        accumulator.Reload()
        name = str(path.relative_to(folder))
        for tag in accumulator.Tags()["tensors"]:
            values = accumulator.Tensors(tag)
            found[f"{name} {tag}"] = [
                (e.step, tf.make_ndarray(e.tensor_proto).tolist()) for e in values
            ]
        for tag in accumulator.Tags()["scalars"]:
            found[f"{name} {tag}"] = [(e.step, e.value) for e in accumulator.Scalars(tag)]
    return found


def differences(one, other):
    """Returns in what the results of two runs differ."""
    found = []
    with np.load(one / "end.npz") as a, np.load(other / "end.npz") as b:
        found += [name for name in a.files if not np.array_equal(a[name], b[name])]
        found += ["number of variables"] if a.files != b.files else []
    for name in ("metrics.csv", "oracle.csv"):
        texts = [(folder / name).read_text() for folder in (one, other)]
        rows = [list(csv.reader(text.splitlines())) for text in texts]
        found += [name] if without_times(rows[0]) != without_times(rows[1]) else []
    if events(one / "tensorboard") != events(other / "tensorboard"):
        found.append("TensorBoard")
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, other)]
    kept = [{k: v for k, v in s.items() if "seconds" not in k} for s in summaries]
    found += ["summary"] if kept[0] != kept[1] else []
    for folder in (one, other):
        left = [str(p) for p in folder.rglob("*") if ".part" in p.name]
        figures = [p.read_bytes() for p in folder.glob("figures/*.png")]
        if left or len(figures) != 4 or set(figures) != {b"first half, second half"}:
            found.append(f"drafts {left} of {folder}")
    return found


def spread(passed, count):
    """Returns moments of all kinds in turns, spread over each kind's number."""
    kinds = ["checkpoint", "step", "figures", "epoch", "data", "tracing"]
    turns = [kinds[place % len(kinds)] for place in range(count)]
    moments = []
    for kind in kinds:
        times = turns.count(kind)
        numbers = np.linspace(1, passed[kind], times + 2)[1:-1].round().astype(int)
        moments += [(kind, int(number)) for number in numbers]
    return moments


def main(folder, kind, count):
    folder.mkdir(parents=True, exist_ok=True)
    status, passed = start_apart(folder / "whole", kind, None)
    if status:
        sys.exit((folder / "whole.txt").read_text())
    moments, found = spread(passed, count), []
    order = np.random.default_rng(0).permutation(len(moments))
    todo = [*(moments[place] for place in order), None]
    while todo:
        status, _ = start_apart(folder / "killed", kind, todo[0])
        if status == 1:
            sys.exit((folder / "killed.txt").read_text())
        if status == 0:  # it came to its end before the moment, so the kill meets a new run
            found += differences(folder / "whole", folder / "killed")
            shutil.rmtree(folder / "killed")
        if status or todo[0] is None:
            todo.pop(0)
    killed = [moments[place] for place in order]
    print(json.dumps({"kind": kind, "killed": killed, "differences": found}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
