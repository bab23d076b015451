"""The other scripts on a finished run: diagnose, evaluate, export, and a second stage."""

import html
import json
import re
import shutil

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal

from dann.layers import BinaryDense
from dann.training.run_directory import RunDirectory

DATA = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp"]
SHORT = [*DATA, "debug=fast", "compare=false"]
WATCHED = ["callbacks=diagnostics", "trainer.oracle_curve=true", "hydra.run.dir=run"]
NAMES = "certify,discriminator_vs_probe,label_loss_baselines,gradient_conflict,jacobians"
FEW = [f"diagnostics=[{NAMES}]", "samples=40"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_well, with_features):
    """A folder with two files of features and a finished run on them."""
    folder = with_features(tmp_path_factory.mktemp("finished"))
    run_well("train.py", [*SHORT, *WATCHED], folder, draws=True)
    return folder


def test_diagnose_writes_measurements_figures_and_a_report(folder, run_well):
    output = run_well("diagnose.py", ["run=run", *FEW], folder)
    diagnosis = json.loads((folder / "run/diagnosis.json").read_text())
    assert f"{diagnosis['headline']} - {diagnosis['reasons'][0]} " in " ".join(output.split())
    assert max(map(len, output.splitlines())) <= 100
    assert "2/5 discriminator_vs_probe: " in output
    summary = json.loads((folder / "run/summary.json").read_text())
    probe = f"the training probed held-out source examples ({summary['probe/accuracy']:.0%})"
    assert f"on 40 training examples per domain; {probe}" in output
    assert output.endswith("Written to run/report.html\n")
    about = {"method": "DANN", "step": 4, "examples of each domain": 40}
    assert about.items() <= diagnosis["metadata"].items()
    assert diagnosis["skip_reasons"] == {}
    # The schedule's strength at its fourth step, as the checkpoint has it.
    numbers = diagnosis["measurements"]
    assert numbers["reversal/ratio"] == pytest.approx(numbers["reversal/strength"], rel=1e-3)
    assert 0.07 < numbers["reversal/strength"] < 0.1
    report = (folder / "run/report.html").read_text()
    assert f"<h1>{html.escape(diagnosis['headline'])}</h1>" in report
    assert [path.name for path in (folder / "run/figures").glob("*.svg")] == ["diagnosis_probe.svg"]
    assert report.count("<img ") == 3  # with the run's features and confusion
    assert f"<td>{summary['target/accuracy']:.1%}</td>" in report
    assert numbers["target/accuracy"] == summary["target/accuracy"]


def test_diagnose_repeats_no_example_of_a_smaller_target(tmp_path, run_well, with_features):
    settings = [*SHORT, "callbacks=none", "hydra.run.dir=run"]
    run_well("train.py", settings, with_features(tmp_path, target_count=50))
    output = run_well("diagnose.py", ["run=run", "diagnostics=[discriminator_vs_probe]"], tmp_path)
    assert "\nMeasured on 40 training examples per domain; " in output  # of 80 and 40


def test_evaluate_prints_and_changes_no_file(folder, tmp_path, run_here, run_well, check_refused):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "run/predictions.csv").write_text("edited")
    output = run_well("evaluate.py", ["run=run"], tmp_path)
    assert (tmp_path / "run/predictions.csv").read_text() == "edited"
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    accuracies = [summary[f"{domain}/accuracy"] for domain in ("source", "target")]
    balanced = [summary[f"{domain}/balanced_accuracy"] for domain in ("source", "target")]
    printed = re.findall(r"^accuracy (.*) of 20 examples, balanced (.*)", output, re.MULTILINE)
    assert printed == [(f"{a:.1%}", f"{b:.1%}") for a, b in zip(accuracies, balanced, strict=True)]
    # The diagonal of each confusion matrix contains the correct predictions.
    matrices = re.findall(r"predicted class\n.*\n((?:\d .*\n){4})", output)
    for text, accuracy in zip(matrices, accuracies, strict=True):
        matrix = np.array([line.split()[1:] for line in text.splitlines()], int)
        assert matrix.sum() == 20
        assert matrix.trace() == pytest.approx(20 * accuracy)
    lines = output.partition("Epoch that each score")[2].splitlines()[3:]
    names = [line.split()[0] for line in lines]
    assert sorted(names) == ["bnm", "entropy", "info_max", "mcc", "source_accuracy"]
    shutil.copy(tmp_path / "b.npz", tmp_path / "new.npz")
    (tmp_path / "run/predictions_new.csv").write_text("mine")
    refused = run_here("evaluate.py", ["run=run", "target=new.npz"], tmp_path)
    check_refused(refused, "Received: run/predictions_new.csv")
    assert (tmp_path / "run/predictions_new.csv").read_text() == "mine"


def test_changed_data_are_not_evaluated(folder, tmp_path, run_here, check_refused):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with np.load(tmp_path / "b.npz") as file:
        arrays = {key: file[key][::-1] for key in file}
    np.savez(tmp_path / "b.npz", **arrays)
    words = "other training examples of the target (80 examples in training, with other values)"
    for script in ("evaluate.py", "diagnose.py"):
        result = run_here(script, ["run=run", "paths.work_dir=."], tmp_path)
        check_refused(result, f"Received: {words}")


def test_second_stage_starts_from_the_weights_of_its_teacher(folder, run_well):
    # At a learning rate of 0 the weights do not change.
    still = ["optimizer=adam", "optimizer.learning_rate=0.0", "selection=none", "callbacks=none"]
    second = ["method=dirt_t", "method.teacher=run", "hydra.run.dir=second"]
    run_well("train.py", [*SHORT, *still, *second], folder)
    files = [folder / run / "classifier.keras" for run in ("run", "second")]
    teacher, student = map(keras.models.load_model, files)
    assert_all_equal(teacher.trainable_weights, student.trainable_weights)


def test_export_writes_into_the_run_directory(folder, tmp_path, run_here):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    classifier = keras.Sequential([keras.Input((5,)), BinaryDense(4, use_bias=False)])
    classifier.save(tmp_path / "run/classifier.keras")
    result = run_here("export.py", ["run=run"], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    path = tmp_path / "run/export/classifier.dann"
    assert "Compared on 20 target examples: 20 get the same class; logits dif" in result.stdout
    size = path.stat().st_size
    assert result.stdout.endswith(f"\nWritten to run/export/classifier.dann: {size} bytes\n")
    assert "export/classifier.dann" in RunDirectory(tmp_path / "run").manifest.files()


REFUSALS = {
    "diagnose.py run=nowhere": "run must be an existing directory of a finished run. R",
    "diagnose.py run=empty": "no empty/",
    "diagnose.py run=begun": "train.py a=b hydra.run.dir=begun resume=true. Received: no begun/",
    "diagnose.py run=broken": "Received: broken/checkpoints/last.keras, which",
    "diagnose.py run=run diagnostics=[gain]": "Received: diagnostic='gain'",
    "export.py run=run format=tflite": "error: format=tflite: Invalid value 'tflite', expected",
    "evaluate.py": "Missing required key: run. Write run=<run directory>",
    "evaluate.py run=run target=nothing.npz": "nothing.npz",
    "evaluate.py run=run target=empty": "a file, like the target of the run. Received: empty,",
    "evaluate.py run=empty": "or the folder `recommended` of a sweep. Received: empty",
    "train.py method=dirt_t": "Missing required key: method.teacher",
    "train.py method=dirt_t method.teacher=nothing": "nothing/classifier.keras",
    "train.py method=dirt_t method.teacher=run network.backbone.hidden_units=[7]": "a weight list",
}


@pytest.mark.parametrize(("command", "words"), REFUSALS.items(), ids=REFUSALS)
def test_wrong_command_prints_one_line(command, words, folder, run_here, check_refused):
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "broken/checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "broken/checkpoints/last.keras").write_text("no archive")
    RunDirectory(folder / "begun").write_config({"config.yaml": "", "overrides.yaml": "- a=b"})
    script, *arguments = command.split()
    (folder / "mine").mkdir(exist_ok=True)
    run = "mine" if "nothing" in command else "mine/new/run"
    training = [*SHORT, f"hydra.run.dir={run}"] if script == "train.py" else []
    result = run_here(script, [*training, *arguments], folder)
    check_refused(result, words, silent=script != "diagnose.py")
    assert [*(folder / "mine").iterdir()] == []  # the folder of the user is kept
