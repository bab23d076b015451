"""The files of a diagnosis: all of them or none."""

import os
import pathlib
from functools import partial

import pytest

from dann.diagnostics import Diagnosis, Verdict
from dann.training import RunDirectory
from dann.training.diagnose_run import write_diagnosis

EARLIER = {"probe/loss": 0.5, "conflict/a/source_cosine": 0.1, "conflict/a/target_cosine": 0.2}


def of(measurements, name="aligned"):
    return Diagnosis(Verdict(name, ("a reason",)), measurements)


def content_of(folder):
    return {p.relative_to(folder): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def test_a_later_diagnosis_takes_the_place_of_an_earlier_one_and_of_all_its_figures(tmp_path):
    write_diagnosis(of(EARLIER), RunDirectory(tmp_path))
    (tmp_path / "figures/accuracy.svg").write_text("of the training")
    report = write_diagnosis(of({"probe/loss": 0.3}, "under-adapted"), RunDirectory(tmp_path))
    assert report == tmp_path / "report.html"
    assert "Under-adapted" in report.read_text()
    assert sorted(str(path) for path in content_of(tmp_path)) == [
        "diagnosis.json",
        "figures",
        "figures/accuracy.svg",
        "figures/diagnosis_discriminators.svg",
        "report.html",
    ]


@pytest.mark.parametrize("failing", ["write_bytes", "replace"])
def test_an_error_while_writing_leaves_no_draft(tmp_path, monkeypatch, failing):
    write_diagnosis(of(EARLIER), RunDirectory(tmp_path))
    before = content_of(tmp_path)
    real = getattr(pathlib.Path, failing)
    calls = []

    def full(path, *arguments):
        calls.append(path)
        # Of the drafts the second fails; of the moves the first.
        if len(calls) == (2 if failing == "write_bytes" else 1):
            raise OSError("no space left")
        return real(path, *arguments)

    monkeypatch.setattr(pathlib.Path, failing, full)
    with pytest.raises(OSError, match="no space left"):
        write_diagnosis(of({"probe/loss": 0.3}), RunDirectory(tmp_path))
    assert content_of(tmp_path) == before


def test_a_path_in_the_way_is_reported_and_nothing_is_written(tmp_path, monkeypatch):
    for place, kind, message in [
        ("report.html", IsADirectoryError, "Received: the directory .*report.html"),
        ("diagnosis.json", IsADirectoryError, "Received: the directory .*diagnosis.json"),
        ("figures", NotADirectoryError, "Received: the file .*figures"),
    ]:
        run = tmp_path / f"without_{place}"
        run.mkdir()
        (run / place).write_text("") if place == "figures" else (run / place).mkdir()
        before = content_of(run)
        for refuse in (RunDirectory.check_writable, partial(write_diagnosis, of(EARLIER))):
            with pytest.raises(kind, match=message):
                refuse(RunDirectory(run))
        assert content_of(run) == before
    # Of whoever is root the system refuses nothing.
    monkeypatch.setattr(os, "access", lambda path, mode: pathlib.Path(path).name != "figures")
    (tmp_path / "run/figures").mkdir(parents=True)
    with pytest.raises(PermissionError, match="can be written to. Received: .*run/figures"):
        RunDirectory(tmp_path / "run").check_writable()
