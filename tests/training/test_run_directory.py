"""Files of a run: complete, and with one line about a missing or broken file."""

import json
import os
import pathlib
import re

import keras
import pandas
import pytest

from dann.diagnostics.check import Diagnosis
from dann.diagnostics.verdict import verdict
from dann.training.checkpoints import Checkpoints, lock_directory
from dann.training.diagnose_run import write_diagnosis
from dann.training.file_readers import LARGEST_FILE
from dann.training.manifest import MANIFEST, Manifest, atomic_write
from dann.training.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "run")


def test_run_with_a_summary_is_finished(run):
    assert not run.is_finished()
    run.write_summary({"seed": 3, "target/accuracy": 0.5})
    written = json.loads(run.summary_file.read_text())
    assert run.summary() == written == {"seed": 3, "target/accuracy": 0.5}
    assert run.is_finished()
    assert {path.name for path in run.path.iterdir()} == {"summary.json", MANIFEST}
    with pytest.raises(FileExistsError, match="overwrite=true, which deletes its results"):
        run.check_free()
    run.check_free(overwrite=True)
    assert run.discard_classifier() == ["summary.json"]
    assert not run.is_finished()


@pytest.mark.parametrize("text", ['{"seed": 4, "me', "[1]", "", "[" * 100_000])
def test_broken_summary_does_not_finish_a_run(run, text):
    run.path.mkdir()
    run.summary_file.write_text(text)
    assert not run.is_finished()
    with pytest.raises(ValueError, match=f"Received: {run.summary_file}"):
        run.summary()


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ([9, 1.0], [8, 2.1], "of the target (8 examples in training, with other values)"),
        ([9, 1.1], [8, 2.0], "of the source (9 examples in training, with other values)"),
        # As if `csv_table` scaled both domains by their rows.
        ([9, 1.1], [7, 2.1], "values) and of the target (8 examples in training, 7 now)"),
    ],
)
def test_every_changed_domain_is_named(run, source, target, words):
    run.write_summary({"training_data": {"source": [9, 1.0], "target": [8, 2.0]}})
    with pytest.raises(ValueError, match=f"other training examples .*{re.escape(words)}"):
        run.check_data({"source": source, "target": target})


NAMES = ["summary", "config", "metrics", "oracle_curve", "classifier", "model", "predictions"]


@pytest.mark.parametrize("name", NAMES)
def test_missing_or_broken_file_is_named(run, name):
    with pytest.raises(FileNotFoundError, match=f"Received: no {run}/"):
        getattr(run, name)()
    for path in (getattr(run, name) for name in vars(run) if name.endswith("_file")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=f"Received: {run}/|codec can't decode"):
        getattr(run, name)()
    for path in filter(pathlib.Path.is_file, run.path.rglob("*")):
        os.truncate(path, LARGEST_FILE + 1)  # a sparse file
    with pytest.raises(ValueError, match="Expected at most 4,294,967,296 bytes"):
        getattr(run, name)()


def test_models_are_loaded_in_safe_mode(run):
    code = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)])
    run.checkpoint_file.parent.mkdir(parents=True)
    code.save(run.checkpoint_file)
    code.save(run.classifier_file)
    for load in (run.model, run.classifier):
        with pytest.raises(ValueError, match=r"\.keras, which cannot be read as a model") as raised:
            load()
        assert "unsafe" in str(raised.value.__cause__)


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_only_written_files_are_deleted(run):
    foreign = [run.path / "notes.txt", run.figures / "samples.svg", run.checkpoints / "step-8.npz"]
    foreign += [run.path / "summary.part.json", run.path / "run.lock", run.report_file]
    checkpoints = Checkpoints(run.checkpoints)
    for path in foreign:
        touch(path)
    baseline = RunDirectory(run.baseline)
    files = ["figures/diagnosis_probe.svg", "export/model/variables", "predictions_new.csv"]
    for path in (*run.outputs(), run.diagnosis_file, *map(run.path.joinpath, files)):
        for directory in (run, baseline):
            with directory.manifest.write(directory.path / path.relative_to(run.path)) as draft:
                draft.touch()
    checkpoints.write(4, {}, [])
    touch(run.checkpoints / ".step-9.dann-draft.npz")  # of a killed process
    with lock_directory(run.path):
        names = "classifier.keras diagnosis.json export/ figures/ predictions.csv"
        names += " predictions_new.csv source_only/ summary.json"
        assert run.discard_classifier() == names.split()
        assert all(path.exists() for path in (run.metrics_file, run.oracle_file, *run.input_files))
        baseline.write_summary({})  # a new baseline
        assert run.discard_classifier() == []
        assert baseline.is_finished()
        run.discard_results()
    assert {path for path in run.path.rglob("*") if path.is_file()} == {*foreign}


def test_manifest_deletes_no_file_outside_the_directory(run, tmp_path):
    precious = tmp_path / "project/samples.png"
    for path in (precious, run.path / "folder/data.csv"):
        touch(path)
    run.figures.symlink_to(precious.parent)
    names = "../project/samples.png", str(precious), "figures/samples.png", "folder"
    content = {"format": "dann run manifest", "kind": "run", "files": dict.fromkeys(names, "")}
    run.manifest.path.write_text(json.dumps(content))
    run.discard_results()
    assert precious.exists()
    assert (run.path / "folder/data.csv").exists()


def test_run_does_not_write_through_a_link(run, tmp_path):
    run.write_summary({})
    (tmp_path / "project").mkdir()
    run.figures.symlink_to(tmp_path / "project")
    with pytest.raises(FileExistsError, match=r"Remove the link. Received: .*figures, a link to"):
        run.check_free(overwrite=True)


@pytest.mark.parametrize("name", ["nothing", "log.txt", "train.log", ".dann-lock", ".hydra"])
def test_run_starts_next_to_hydra_files_and_logs(run, name):
    run.check_free()
    run.path.mkdir()
    if name != "nothing":
        (run.path / name).write_text("seed: 3")
    run.check_free()


UNRELATED_FILES = {
    "figures/mine.png": ("which contains figures", False),
    "thesis.tex": ("keeps these files. Received: .*, which contains thesis.tex", False),
    "manifest.txt": ("keeps these files. Received: .*, which contains manifest.txt", False),
    "summary.json": ("summary.json, which no run wrote", True),
    "figures/samples.png": ("figures/samples.png, which no run wrote", True),
    "oracle.csv": ("oracle.csv, which no run wrote", True),
    "checkpoints/step-7.npz": ("step-7.npz, which no training wrote", True),
    MANIFEST: ("Expected a list of files that this package wrote. Move the file", True),
}


@pytest.mark.parametrize("name", UNRELATED_FILES)
def test_run_refuses_directory_of_unrelated_files(run, name):
    words, overwrite = UNRELATED_FILES[name]
    (run.path / name).parent.mkdir(parents=True)
    (run.path / name).write_text("{}")
    for value in {overwrite, False}:  # the message must not offer `overwrite` in vain
        with pytest.raises(FileExistsError, match=words):
            run.check_free(value)
    if not overwrite:
        run.check_free(overwrite=True)
    assert (run.path / name).read_text() == "{}"


@pytest.mark.parametrize("overwrite", [False, True])
def test_run_refuses_the_directory_of_a_sweep(run, overwrite):
    with Manifest(run.path, "sweep").write(run.path / "sweep.csv") as draft:
        draft.touch()
    with pytest.raises(FileExistsError, match="Expected the directory of a run.* of a sweep"):
        run.check_free(overwrite)


@pytest.mark.parametrize("content", [b"\xff", b"[]", b'{"kind": "run", "files": {}}', b""])
def test_manifest_of_another_format_is_refused(run, content):
    touch(run.manifest.path)
    run.manifest.path.write_bytes(content)
    with pytest.raises(FileExistsError, match=f"Move the file.* Received: {run.manifest.path}"):
        run.write_summary({})
    assert run.manifest.path.read_bytes() == content


def test_predictions_for_another_target_are_not_replaced(run):
    table = pandas.DataFrame({"class": ["a"]})
    for _ in range(2):
        run.write_predictions(table, "a/t.npz")
    with pytest.raises(FileExistsError, match=r"rename the target.*predictions for .*a/t\.npz"):
        run.write_predictions(table, "b/t.npz")


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), atomic_write(path) as draft:
        draft.write_text("half é", encoding="ascii")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


PROBE = {"probe/accuracy": 0.7, "probe/low": 0.6, "probe/high": 0.8}
GAME = {"game/eigenvalues/real": [1.0, 2.0], "game/eigenvalues/imag": [0.5, 0.0]}


@pytest.mark.parametrize("name", ["report.html", "diagnosis.json", "figures/diagnosis_probe.svg"])
def test_a_diagnosis_replaces_no_file_of_others(tmp_path, name):
    (tmp_path / "figures").mkdir()
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"Received: .*{name}, which no run wrote"):
        write_diagnosis(Diagnosis(verdict(PROBE), PROBE), RunDirectory(tmp_path))
    assert [path.name for path in tmp_path.rglob("*.*")] == [name.rpartition("/")[2]]


def test_later_diagnosis_replaces_files_of_an_earlier_one(tmp_path):
    run = RunDirectory(tmp_path)
    write_diagnosis(Diagnosis(verdict(PROBE), PROBE | GAME), run)
    (tmp_path / "figures/accuracy.svg").write_text("of the training")
    (tmp_path / "figures/samples.png").write_bytes(b"of the training")
    report = write_diagnosis(Diagnosis(verdict(PROBE), PROBE), run)
    assert report == tmp_path / "report.html"
    assert "Partly aligned" in report.read_text()
    assert "data:image/png;base64," in report.read_text()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".dann-manifest.json", "diagnosis.json", "figures", "report.html"}
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"accuracy.svg", "diagnosis_probe.svg", "samples.png"}
