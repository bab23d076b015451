"""A run that is killed by SIGKILL at five moments ends with the bits of an uninterrupted run.

The tests run this file as a program, with a folder and the kind of run as arguments. Importing the
libraries takes most of the time of a short run, so the program imports them once and forks a child
for each start. It prints the names of the results that differ from the uninterrupted run.
"""

import contextlib
import csv
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import types
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest

import dann
from dann.data import DomainPair
from dann.networks import binary_mlp_backbone
from dann.optimizers import Bop, PerVariable
from dann.schedules import GaninDecay, GaninSchedule
from dann.training import EpochTable, checkpoints, preparation, run, run_directory, stops, trainer

TRAINER = trainer.Trainer(steps=12, steps_per_epoch=4, batch_size=6, oracle_curve=True)
SELECTION = types.SimpleNamespace(scores=["info_max"], samples=20, keep="info_max")


def domains():
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    inputs = (rng.normal(size=(3, 5))[labels] + rng.normal(size=(30, 5))).astype("float32")
    tests = (inputs[:15] * 1.1, labels[:15]), (inputs[:15] + 1, labels[:15])
    return DomainPair("a", "b", (inputs, labels), tests[0], inputs + 1, tests[1], 3)


def build_binary_model(method=dann.DANN, **options):
    return method(binary_mlp_backbone((5,), hidden_units=(8, 8)), num_classes=3, **options)


def build_regularized_model():
    hidden = [keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization()]
    layers = [keras.Input((5,)), *hidden, keras.layers.Dropout(0.3)]
    noise = {name: [keras.layers.GaussianNoise(0.2)] for name in ("source", "target")}
    settings = {"regularizers": [dann.MCC(0.1)], "augmentation": noise, "num_classes": 3}
    return dann.DANN(keras.Sequential(layers), strength=GaninSchedule(TRAINER.steps), **settings)


def build_baseline():
    return build_binary_model(dann.SourceOnly)


def bop_and_sgd():
    sgd = keras.optimizers.SGD(GaninDecay(0.02, TRAINER.steps), momentum=0.9)
    return PerVariable({"binary": Bop(1e-2, 1e-6)}, default_optimizer=sgd)


# Functions that build the models, and the optimizer.
KINDS = {
    "binary and baseline": ([build_binary_model, build_baseline], bop_and_sgd),
    "regularized": ([build_regularized_model], lambda: keras.optimizers.Adam(1e-2, use_ema=True)),
}
# The function in which the process dies, and in which call.
MOMENTS = {
    "the sixth step": (stops.StopOnNonFinite, "on_train_batch_end", lambda number, *_: number == 6),
    "the end of the second epoch": (checkpoints, "get_states", lambda *_: True),
    "the second draft": (pathlib.Path, "replace", lambda _, draft, path: path.stem == "step-8"),
    "the classifier": (run_directory.RunDirectory, "save_classifier", lambda *_: True),
    "the summary": (run_directory.RunDirectory, "write_summary", lambda *_: True),
}


def kill_at(owner, name, dies):
    """Returns a patch of a function in which this process kills itself."""
    original, numbers = getattr(owner, name), itertools.count(1)

    def call(*args, **kwargs):
        if dies(next(numbers), *args):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    return mock.patch.object(owner, name, call)


def train(folder, kind):
    """Starts the run, from the data to the summary."""
    builders, optimizer = KINDS[kind]
    models = []
    for build_model in builders:
        preparation.start(1)
        models.append(preparation.compile_model(build_model(), optimizer(), TRAINER))
    callbacks = [EpochTable(folder / "metrics.csv")]
    settings = {"selection": SELECTION, "resume": True}
    run.train_run(folder, domains(), TRAINER, 1, *models, callbacks=callbacks, **settings)
    variables = [v for model in models for v in (*model.variables, *model.optimizer.variables)]
    np.savez(folder / "end.npz", *map(keras.ops.convert_to_numpy, variables))


def start(folder, kind, moment=None):
    """Runs `train` in a child process and returns its exit status."""
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        with open(folder / "log.txt", "a") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        with kill_at(*MOMENTS[moment]) if moment else contextlib.nullcontext():
            train(folder, kind)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def results(folder):
    """Returns what must be equal: bits by number, rows, and the summary without times."""
    with np.load(folder / "end.npz") as arrays:
        values = {name: arrays[name].tobytes() for name in arrays.files}
    for name in ("metrics.csv", "oracle.csv"):
        rows = list(csv.DictReader((folder / name).read_text().splitlines()))
        values[name] = [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]
    summary = json.loads((folder / "summary.json").read_text())
    drafts = [str(path) for path in folder.rglob("*.dann-draft*")]
    return {**values, **{k: v for k, v in summary.items() if "seconds" not in k}, "drafts": drafts}


def main(folder, kind):
    complete, parts = folder / "complete", folder / "parts"
    statuses = [start(complete, kind), *(start(parts, kind, moment) for moment in MOMENTS)]
    statuses.append(start(parts, kind))
    if statuses != [0, *[-signal.SIGKILL] * len(MOMENTS), 0]:
        sys.exit(f"{statuses} {(parts / 'log.txt').read_text()[-2000:]}")
    expected, actual = results(complete), results(parts)
    names = {**expected, **actual}
    print(json.dumps([name for name in names if expected.get(name) != actual.get(name)]))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_run_resumes_with_identical_results(kind, backend, tmp_path):
    pytest.importorskip(backend)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, __file__, str(tmp_path), kind]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == []


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
