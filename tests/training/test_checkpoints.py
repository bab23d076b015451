import hashlib
import json
import os
import pathlib

import keras
import numpy as np
import pytest

from dann.training.checkpoint_times import CheckpointTimes
from dann.training.checkpoints import Checkpoints
from dann.training.plain_values import is_plain, packed, unpacked
from dann.training.run_directory import ResumeError


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def write(checkpoints, model, *steps):
    for step in steps:
        model.layers[0].bias.assign([step])
        path = checkpoints.write(step, model, {"step": step}, {"a": np.arange(step)})
    return path


def test_the_last_ones_are_kept_and_the_newest_has_a_name_of_its_own(tmp_path, model):
    checkpoints = Checkpoints(tmp_path, keep=2)
    write(checkpoints, model, 3, 20, 100)
    assert {path.name for path in tmp_path.iterdir()} == {"step-20", "step-100", "last.keras"}
    newest = checkpoints.newest()
    assert newest.state == {"step": 100}
    np.testing.assert_array_equal(newest.arrays["a"], np.arange(100))
    assert keras.models.load_model(tmp_path / "last.keras").layers[0].bias == 100


@pytest.mark.parametrize("name", ["model.keras", "arrays.npz", "state.json", "SHA256SUMS"])
@pytest.mark.parametrize("harm", ["flip", "cut", "lose"])
def test_a_broken_one_is_named_and_the_one_before_it_is_used(name, harm, tmp_path, model, capsys):
    checkpoints = Checkpoints(tmp_path)
    path = write(checkpoints, model, 1, 2) / name
    content = bytearray(path.read_bytes())
    if harm == "lose":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert checkpoints.newest().state == {"step": 1}
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "step-2" in told
    assert (tmp_path / "step-2").is_dir()  # for whoever wants to know what broke it
    write(checkpoints, model, 2)  # the step comes again
    assert checkpoints.newest().state == {"step": 2}


def test_drafts_and_other_files_are_no_checkpoints(tmp_path, model):
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / "step-9.part").mkdir()
    (tmp_path / "step-x").mkdir()
    (tmp_path / "step-8").write_text("a file")
    assert checkpoints.newest() is None
    write(checkpoints, model, 1)
    assert not (tmp_path / "step-9.part").exists()


def test_an_error_while_it_is_written_leaves_the_ones_before_alone(tmp_path, model):
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, model, 1)
    with pytest.raises(TypeError, match="not JSON serializable"):
        checkpoints.write(2, model, {"step": object()}, {})
    assert {path.name for path in tmp_path.iterdir()} == {"step-1", "last.keras"}


def test_all_are_deleted_when_training_starts_over(tmp_path, model):
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, model, 1)
    (tmp_path / "notes.txt").write_text("mine")
    checkpoints.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_checkpoint_of_another_model_is_refused_in_one_sentence(tmp_path, model):
    write(Checkpoints(tmp_path), model, 1)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="resumed with the model.*Received: Sequential"):
        Checkpoints(tmp_path).newest().load_into(other)


VALUES = [
    {"best": np.float32(0.1), "wait": 3, "none": None, "nan": float("inf"), "text": "x"},
    [(1, 0.1 + 0.2, "a"), [], {}, ()],
    {"dict": {"array": np.arange(6.0).reshape(2, 3), "tuple": np.array([True, False])}},
]


@pytest.mark.parametrize("value", VALUES)
def test_plain_values_come_back_from_json_with_the_same_bits_and_types(value):
    arrays = {}
    text = json.dumps(packed(value, arrays))
    found = unpacked(json.loads(text), arrays)
    assert is_plain(value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize("value", [object(), {1: 2}, [lambda: 0], np.array(["a"]), {"a": {3}}])
def test_other_values_are_not_plain(value):
    assert not is_plain(value)


def test_checkpoints_are_due_by_steps_epochs_and_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    by_steps, by_epoch, by_time = map(CheckpointTimes, (np.int64(5), "epoch", "2min"))
    assert [step for step in range(1, 12) if by_steps.is_due(step, False)] == [*range(5, 12)]
    by_steps.written(5)
    assert [step for step in range(6, 12) if by_steps.is_due(step, True)] == [10, 11]
    assert by_epoch.is_due(3, True)
    assert not by_epoch.is_due(3, False)
    now[0] = 120.0
    assert by_time.is_due(3, False)
    assert not by_epoch.is_due(3, False)
    now[0] = 600.0
    assert by_epoch.is_due(3, False)  # of a long epoch
    assert not CheckpointTimes(None).is_due(3, True)


@pytest.mark.parametrize(("every", "seconds"), [("30s", 30), ("10min", 600), ("1.5h", 5400)])
def test_times_are_told_in_seconds_minutes_or_hours(every, seconds):
    assert CheckpointTimes(every).seconds == seconds


@pytest.mark.parametrize("every", [0, -1, True, "soon", "10", "0min", "1.min", 0.5, ["epoch"]])
def test_what_is_no_interval_is_refused(every):
    with pytest.raises(ValueError, match="'10min' or '2h', or None. Received: every="):
        CheckpointTimes(every)


def test_folders_of_others_are_neither_read_nor_deleted(tmp_path, model):
    for step in (1, 2):
        (tmp_path / f"step-{step}").mkdir()
        (tmp_path / f"step-{step}/thesis.pt").write_text("mine")
    checkpoints = Checkpoints(tmp_path, keep=1)
    assert checkpoints.newest() is None
    checkpoints.discard()
    with pytest.raises(FileExistsError, match="step-2 with other files"):
        write(checkpoints, model, 2)
    write(checkpoints, model, 3)
    assert (tmp_path / "step-1/thesis.pt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("last.keras", "step-1", "step-2", "step-3")
    ]


def test_a_training_does_not_begin_anew_because_all_checkpoints_are_broken(tmp_path, model):
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, model, 1)
    (tmp_path / "step-1/state.json").write_text("{}")
    with pytest.raises(ResumeError, match="start over with resume=false. Received: 1 that"):
        checkpoints.newest()


def test_writing_to_the_offered_model_does_not_harm_its_checkpoint(tmp_path, model):
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, model, 1)
    with (tmp_path / "last.keras").open("r+b") as file:
        file.write(b"other bytes")
    assert checkpoints.newest().state == {"step": 1}


def test_a_checkpoint_is_on_the_disk_before_it_takes_its_name(tmp_path, model, monkeypatch):
    on_disk, at_rename = set(), set()
    fsync, rename = os.fsync, pathlib.Path.rename

    def flushed(handle):
        fsync(handle)
        on_disk.add(os.fstat(handle).st_ino)

    def renamed(self, target):
        at_rename.update(on_disk)
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(pathlib.Path, "rename", renamed)
    folder = write(Checkpoints(tmp_path), model, 1)
    assert {path.stat().st_ino for path in (folder, *folder.iterdir())} <= at_rename
    assert len(list(folder.iterdir())) == 4
    # What lists the new name, and the copy under the other name.
    assert {tmp_path.stat().st_ino, (tmp_path / "last.keras").stat().st_ino} <= on_disk


def test_a_state_of_any_depth_is_a_broken_checkpoint(tmp_path, model, capsys):
    checkpoints = Checkpoints(tmp_path)
    path = write(checkpoints, model, 1, 2)
    (path / "state.json").write_text("[" * 100_000)
    files = [path / name for name in ("model.keras", "arrays.npz", "state.json")]
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (path / "SHA256SUMS").write_text("".join(sums))
    assert checkpoints.newest().state == {"step": 1}
    assert "step-2" in capsys.readouterr().err
