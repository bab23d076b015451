"""What the other scripts do with a finished run: diagnose, evaluate, export, a second stage."""

import csv
import html
import json
import re
import shutil

import keras
import numpy as np
import pytest

from dann.deployment import load
from dann.layers import BinaryDense

DATA = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp"]
SHORT = [*DATA, "debug=fast", "compare=false"]
WATCHED = ["callbacks=diagnostics", "trainer.oracle_curve=true", "hydra.run.dir=run"]
NAMES = "certify,discriminator_vs_probe,label_loss_baselines,gradient_conflict,jacobians"
FEW = [f"diagnostics=[{NAMES}]", "samples=40"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_well, with_features):
    """A folder with two files of features and a run on them."""
    folder = with_features(tmp_path_factory.mktemp("finished"))
    run_well("train.py", [*SHORT, *WATCHED], folder)
    return folder


def test_the_callback_puts_its_numbers_into_the_table_of_the_run(folder):
    rows = list(csv.DictReader((folder / "run/metrics.csv").read_text().splitlines()))
    assert len(rows) == 2
    for row in rows:
        assert float(row["diagnostics/reversal/cosine"]) == pytest.approx(-1, abs=1e-4)
        assert -1 <= float(row["diagnostics/conflict/cosine"]) <= 1


def test_a_run_is_diagnosed_reported_and_shown(folder, run_well):
    told = run_well("diagnose.py", ["run=run", *FEW], folder)
    found = json.loads((folder / "run/diagnosis.json").read_text())
    assert f"{found['headline']} - {found['reasons'][0]} " in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 100
    assert "2/5 discriminator_vs_probe: " in told
    assert told.endswith("Written to run/report.html\n")
    about = {"method": "DANN", "step": 4, "examples of each domain": 40}
    assert about.items() <= found["metadata"].items()
    assert found["skip_reasons"] == {}
    # The schedule's strength at its fourth step, as the checkpoint has it.
    numbers = found["measurements"]
    assert numbers["reversal/ratio"] == pytest.approx(numbers["reversal/strength"], rel=1e-3)
    assert 0.07 < numbers["reversal/strength"] < 0.1
    report = (folder / "run/report.html").read_text()
    assert f"<h1>{html.escape(found['headline'])}</h1>" in report
    assert [path.name for path in (folder / "run/figures").glob("*.svg")] == ["diagnosis_probe.svg"]
    assert report.count("<img ") == 3  # with the run's features and confusion
    accuracy = json.loads((folder / "run/summary.json").read_text())["target/accuracy"]
    assert f"<td>{accuracy:.1%}</td>" in report


def test_a_run_is_evaluated_on_its_test_sets_and_every_score_has_its_regret(folder, run_well):
    output = run_well("evaluate.py", ["run=run"], folder)
    summary = json.loads((folder / "run/summary.json").read_text())
    accuracies = [summary[f"{domain}/accuracy"] for domain in ("source", "target")]
    balanced = [summary[f"{domain}/balanced_accuracy"] for domain in ("source", "target")]
    told = re.findall(r"^accuracy (.*) of 20 examples, balanced (.*)", output, re.MULTILINE)
    assert told == [(f"{a:.1%}", f"{b:.1%}") for a, b in zip(accuracies, balanced, strict=True)]
    # The diagonal of each confusion matrix, too.
    matrices = re.findall(r"predicted class\n.*\n((?:\d .*\n){4})", output)
    for text, accuracy in zip(matrices, accuracies, strict=True):
        matrix = np.array([line.split()[1:] for line in text.splitlines()], int)
        assert matrix.sum() == 20
        assert matrix.trace() == pytest.approx(20 * accuracy)
    names = [line.split()[0] for line in output.partition("What each score")[2].splitlines()[3:]]
    cheap = {"source_accuracy", "entropy", "info_max", "snd", "bnm", "mcc"}
    assert len(names) == len(cheap)
    assert set(names) == cheap


def test_a_second_stage_continues_the_run_that_it_names(folder, run_well):
    # A rate of 0 leaves the weights where they start.
    still = ["optimizer=adam", "optimizer.learning_rate=0.0", "selection=none", "callbacks=none"]
    second = ["method=dirt_t", "method.teacher=run", "hydra.run.dir=second"]
    run_well("train.py", [*SHORT, *still, *second], folder)
    paths = (folder / run / "classifier.keras" for run in ("run", "second"))
    for old, new in zip(
        *(keras.models.load_model(p).trainable_weights for p in paths), strict=True
    ):
        np.testing.assert_array_equal(old, new)


@pytest.fixture
def copied(folder, tmp_path):
    """A function that copies the run, with a network of these layers for its classifier."""

    def copy(*layers):
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        keras.Sequential([keras.Input((5,)), *layers]).save(tmp_path / "run/classifier.keras")
        return tmp_path

    return copy


def test_a_run_is_exported_into_its_directory(copied, run_here):
    folder = copied(BinaryDense(4, use_bias=False))
    result = run_here("export.py", ["run=run"], folder)
    assert (result.returncode, result.stderr) == (0, "")
    path = folder / "run/export/classifier.dann"
    told = f"run/export/classifier.dann: {path.stat().st_size} bytes; 20 of 20 examples get the"
    assert told in result.stdout
    inputs = np.random.default_rng(1).standard_normal((4, 5))
    classifier = keras.models.load_model(folder / "run/classifier.keras")
    np.testing.assert_array_equal(load(path).predict(inputs), classifier.predict(inputs, verbose=0))


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (keras.layers.Dense(4, activation="gelu", name="c"), ["Layer 'c/gelu'", "Received: Gelu"]),
        (keras.layers.Lambda(lambda x: x[:, :4]), ["Received: run/classifier.keras"]),  # holds code
    ],
)
def test_a_classifier_that_cannot_be_packed_is_told(layer, told, copied, run_here, check_refused):
    folder = copied(layer)
    check_refused(run_here("export.py", ["run=run"], folder), *told)
    assert list(folder.glob("run/export/*")) == []


WRONG = {
    "diagnose.py": {
        "run=nowhere": "no nowhere/",
        "run=empty": "no empty/",
        "run=broken": "Received: broken/checkpoints/last.keras, which",
        "run=run diagnostics=[gain]": "Received: diagnostic='gain'",
    },
    "export.py": {
        "run=nowhere": "no nowhere/",
        "run=run format=gguf": "No format=gguf. Choose of ['packed', ",
        "run=run format=tflite": "No format=tflite. Did you mean litert?",
    },
    "evaluate.py": {
        ".": "Did you mean run=.?",
        "": "Missing required key: run",
        "run=nowhere": "nowhere/classifier.keras",
        "run=run target=nothing.npz": "nothing.npz",
    },
    "train.py": {
        "method=dirt_t": "Missing required key: method.teacher",
        "method=dirt_t method.teacher=nothing": "nothing/classifier.keras",
        "method=dirt_t method.teacher=run network.backbone.hidden_units=[7]": "a weight list of",
    },
}


@pytest.mark.parametrize(
    ("script", "command"), [(script, command) for script in WRONG for command in WRONG[script]]
)
def test_a_wrong_command_is_told_in_one_line(script, command, folder, run_here, check_refused):
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "broken/checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "broken/checkpoints/last.keras").write_text("no archive")
    training = [*SHORT, "hydra.run.dir=other"] if script == "train.py" else []
    result = run_here(script, [*training, *command.split()], folder)
    check_refused(result, WRONG[script][command], silent=script != "diagnose.py")
    assert not (folder / "other").exists()
