"""The files that callbacks write to, at a checkpoint and after a start from it."""

import os

import keras
import pytest

from dann.training.callback_states import cut_files, lengths_of_files


@pytest.fixture
def callbacks(tmp_path):
    """A table and a folder of events with what was written until a checkpoint."""
    (tmp_path / "train").mkdir()
    (tmp_path / "metrics.csv").write_text("epoch\n0\n")
    (tmp_path / "train/events.out.tfevents.1").write_text("events")
    board = keras.callbacks.TensorBoard(str(tmp_path))
    return [keras.callbacks.CSVLogger(str(tmp_path / "metrics.csv")), board]


def test_what_was_written_after_the_checkpoint_is_cut_off(callbacks, tmp_path):
    lengths = lengths_of_files(callbacks)
    for name in ("metrics.csv", "train/events.out.tfevents.1"):
        with (tmp_path / name).open("a") as file:
            file.write("1\n")
    (tmp_path / "train/events.out.tfevents.2").write_text("later")
    (tmp_path / "notes.txt").write_text("mine")
    cut_files(callbacks, lengths)
    assert (tmp_path / "metrics.csv").read_text() == "epoch\n0\n"
    assert (tmp_path / "train/events.out.tfevents.1").read_text() == "events"
    assert not (tmp_path / "train/events.out.tfevents.2").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert callbacks[0].append


def test_files_that_lost_what_the_checkpoint_knows_are_named(callbacks, tmp_path, capsys):
    lengths = lengths_of_files(callbacks)
    cut_files(callbacks, lengths)
    assert capsys.readouterr().err == ""
    (tmp_path / "metrics.csv").write_text("epoch\n")
    (tmp_path / "train/events.out.tfevents.1").unlink()
    cut_files(callbacks, lengths)
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == [
        "metrics.csv",
        "train/events.out.tfevents.1",
    ]


def test_rows_are_on_the_disk_before_their_length_is_noted(callbacks, tmp_path, monkeypatch):
    fsync, flushed = os.fsync, set()

    def note(handle):
        fsync(handle)
        flushed.add(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", note)
    lengths_of_files(callbacks)
    files = tmp_path / "metrics.csv", tmp_path / "train/events.out.tfevents.1"
    assert flushed == {file.stat().st_ino for file in files}
