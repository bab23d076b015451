"""What a run leaves on disk: whole files, and one line about what is missing or broken."""

import json
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

from dann.training import RunDirectory
from dann.training.files_on_disk import replacing
from dann.training.run_directory import checkpoint_name


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "run")


def test_a_summary_is_read_back_and_says_that_the_run_is_finished(run):
    assert not run.is_finished()
    run.write_summary({"seed": 3, "target/accuracy": 0.5})
    assert run.summary() == {"seed": 3, "target/accuracy": 0.5}
    assert json.loads(run.summary_file.read_text()) == run.summary()
    assert run.is_finished()
    assert [path.name for path in run.path.iterdir()] == ["summary.json"]
    run.discard_summary()
    assert not run.is_finished()
    run.discard_summary()


@pytest.mark.parametrize("text", ['{"seed": 4, "me', "[1]", ""])
def test_a_summary_that_is_not_whole_is_no_end_of_a_run(run, text):
    run.path.mkdir()
    run.summary_file.write_text(text)
    assert not run.is_finished()
    with pytest.raises(ValueError, match=f"Received: {run.summary_file}"):
        run.summary()


@pytest.mark.parametrize("name", ["summary", "config", "metrics", "oracle_curve", "classifier"])
def test_a_file_that_is_not_there_is_named(run, name):
    with pytest.raises(FileNotFoundError, match=f"Received: no {run}/"):
        getattr(run, name)()


def test_the_checkpoint_and_the_classifier_are_loaded_in_safe_mode(run):
    code = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)])
    run.checkpoint_file.parent.mkdir(parents=True)
    code.save(run.checkpoint_file)
    code.save(run.classifier_file)
    for load in (run.model, run.classifier):
        with pytest.raises(ValueError, match=r"\.keras, which cannot be read as one") as raised:
            load()
        assert "unsafe" in str(raised.value.__cause__)


def test_a_classifier_comes_back_and_no_draft_is_left(run):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    run.save_classifier(model)
    inputs = np.ones((1, 2))
    np.testing.assert_array_equal(run.classifier()(inputs), model(inputs))
    assert list(run.path.iterdir()) == [run.classifier_file]


def test_the_oracle_curve_comes_back_as_columns(run):
    run.write_oracle_curve([(100, 1.5, 0.25), (200, 3.0, 0.5)])
    assert run.oracle_curve() == {
        "step": ["100", "200"],
        "cpu_seconds": ["1.5", "3.0"],
        "target/accuracy": ["0.25", "0.5"],
    }


def test_an_error_while_a_file_is_written_leaves_the_old_one_whole(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text("old")

    def fill_the_disk():
        with replacing(path) as draft:
            draft.write_text("half")
            raise OSError("disk is full")

    with pytest.raises(OSError, match="disk"):
        fill_the_disk()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_config_that_is_put_back_replaces_a_later_one_as_a_whole(run, monkeypatch):
    hydra = run.config_file.parent
    hydra.mkdir(parents=True)
    run.config_file.write_text("seed: 0")
    run.keep_settings({"seed": 0})
    run.config_file.write_text("seed: 1")
    (hydra / "overrides.yaml").write_text("- seed=1")

    def break_off(source, draft):
        draft.mkdir()
        (draft / "config.yaml").write_text("se")
        raise OSError("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", break_off)
        with pytest.raises(OSError, match="disk"):
            run.put_config_back()
    assert run.config() == "seed: 1"
    assert not list(run.checkpoints.glob("*.part"))
    run.put_config_back()
    assert run.config() == "seed: 0"
    assert [path.name for path in hydra.iterdir()] == ["config.yaml"]
    assert {path.name for path in run.checkpoints.iterdir()} == {"settings.json", "hydra"}


def test_a_folder_of_another_name_is_no_checkpoint(run):
    for name in ("step-x", "step-3.part", "stepping-3"):
        (run.checkpoints / name).mkdir(parents=True)
    assert not run.has_checkpoints()
    (run.checkpoints / checkpoint_name(3)).mkdir()
    assert run.has_checkpoints()


def test_links_in_a_strangers_run_lead_no_writing_elsewhere(run, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    run.path.mkdir()
    for name in ("summary.part.json", "report.part.html", "diagnosis.part.json", "report.html"):
        (run.path / name).symlink_to(precious)
    run.write_summary({"a": 1})
    run.write_diagnosis("{}", "<html>", {"one": b"<svg>"})
    (run.path / "oracle.part.csv").symlink_to(precious)
    run.write_oracle_curve([(1, 1.0, 0.5)])
    assert precious.read_text() == "mine"
    assert run.report_file.read_text() == "<html>"


@pytest.mark.parametrize("folder", ["figures"])
def test_a_folder_that_is_a_link_is_refused(run, tmp_path, folder):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run.path.mkdir()
    place = getattr(run, folder)
    place.symlink_to(elsewhere)
    write = {
        "figures": lambda: run.write_diagnosis("{}", "<html>", {"one": b"<svg>"}),
    }[folder]
    with pytest.raises(NotADirectoryError, match=f"the link {place}"):
        write()
    assert list(elsewhere.iterdir()) == []


def test_a_directory_with_the_config_and_logs_alone_is_unused(run):
    assert not run.is_unused()
    run.config_file.parent.mkdir(parents=True)
    run.config_file.write_text("seed: 0\n")
    (run.path / "train.log").write_text("")
    assert run.is_unused()
    run.write_summary({})
    assert not run.is_unused()


def test_the_classes_of_the_target_come_back_with_the_digest_of_their_examples(run):
    with pytest.raises(FileNotFoundError, match=r"with scores \(`selection.scores`\)\. Received"):
        run.target_classes()
    run.path.mkdir(parents=True, exist_ok=True)
    run.write_target_classes("of these", [2, 0, 1])
    digest, classes = run.target_classes()
    assert (digest, classes.tolist()) == ("of these", [2, 0, 1])
    whole = run.classes_file.read_bytes()
    for broken in (whole[:40], b"", whole[:60] + bytes(20) + whole[80:]):
        run.classes_file.write_bytes(broken)
        with pytest.raises(ValueError, match="target_classes.npz, which is broken"):
            run.target_classes()
    run.discard_summary()
    assert not run.classes_file.exists()


def test_the_files_of_a_run_need_no_keras():
    code = "import sys; from dann.training import RunDirectory; sys.exit('keras' in sys.modules)"
    environment = {"DANN_LAZY_IMPORT": "1", "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_no_other_module_spells_the_names_of_a_runs_files():
    root = pathlib.Path(__file__).parents[2]
    names = (
        '"step-',
        '"summary.json"',
        '"oracle.csv"',
        '"target_classes.npz"',
        '"diagnosis.json"',
        '"report.html"',
        '"last.keras"',
    )
    spelled = {
        path.name
        for folder in ("dann", "scripts", "benchmarks")
        for path in (root / folder).rglob("*.py")
        if any(name in path.read_text() for name in names)
    }
    assert spelled == {"run_directory.py"}


@pytest.mark.parametrize("name", ["summary", "config", "metrics", "oracle_curve"])
def test_a_file_that_is_not_text_is_named(run, name):
    for path in (run.summary_file, run.config_file, run.metrics_file, run.oracle_file):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=f"Received: {run}/.*, which is not text"):
        getattr(run, name)()


@pytest.mark.parametrize("row", ["2", "2,0.5,7"])
def test_a_line_of_the_metrics_with_other_columns_is_named(run, row):
    run.path.mkdir()
    run.metrics_file.write_text(f"epoch,loss\n1,0.6\n{row}\n")
    with pytest.raises(ValueError, match=f"2 columns.*line 3 of {run.metrics_file}"):
        run.metrics()


def test_a_field_of_any_length_is_told_in_one_line(run):
    run.path.mkdir()
    run.oracle_file.write_text(f"step,cpu_seconds,target/accuracy\n2,1,{'1' * 200_000}\n")
    with pytest.raises(ValueError, match="oracle.csv, which is broken"):
        run.oracle_curve()


def test_json_of_any_depth_is_told_in_one_line(run):
    run.path.mkdir()
    run.summary_file.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="summary.json, which is broken"):
        run.summary()
    assert not run.is_finished()
