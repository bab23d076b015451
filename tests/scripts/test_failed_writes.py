"""Runs that cannot write end with one line and leave nothing that passes for a result."""

import pytest

SHORT = ["debug=fast", "compare=false", "selection=none", "hydra.run.dir=run"]
NEEDED = {
    "classifier.keras": "[Errno 21] Is a directory",
    "summary.json": "[Errno 21] Is a directory",
}


def check_failed(result, folder, message):
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]  # after what TensorFlow says as it is imported
    assert last.startswith("error: ")
    assert message in last
    assert not (folder / "run/summary.json").is_file()
    assert not (folder / "run/run.lock").exists()
    assert list(folder.rglob("*.part*")) == []


def test_a_full_disk_ends_a_run_with_one_line(tmp_path, run_apart, prepared_digits):
    metrics = "callbacks.metrics.filename=/dev/full"  # every write to it finds the disk full
    result = run_apart("train.py", [*SHORT, metrics], tmp_path)
    check_failed(result, tmp_path, "No space left on device")


def test_a_run_in_a_place_that_cannot_hold_it_is_refused(tmp_path, run_here, check_refused):
    (tmp_path / "file").write_text("mine")
    result = run_here("train.py", ["hydra.run.dir=file/run"], tmp_path)
    check_refused(result, "[Errno 20] Not a directory: ")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_what_stands_in_the_way_of_a_runs_files_is_told(name, tmp_path, run_here):
    (tmp_path / "run" / name / "mine").mkdir(parents=True)
    check_failed(run_here("train.py", SHORT, tmp_path), tmp_path, NEEDED[name])
