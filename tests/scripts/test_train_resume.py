"""`scripts/train.py` is stopped and resumes with the same command."""

import io
import json
import re
import signal
import time

import pytest

LINE = [
    *("data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp", "compare=false"),
    *("selection=none", "trainer.steps=200", "trainer.steps_per_epoch=50"),
    *("trainer.batch_size=80", "hydra.run.dir=run", "resume=true", "schedule=constant"),
    *("optimizer=adam", "trainer.steps_per_execution=1"),
]


def test_stopped_run_resumes(tmp_path, with_features, begin, run_here, run_well, check_refused):
    folder = with_features(tmp_path)
    first = begin("train.py", LINE, folder)
    while first.poll() is None and not list(folder.glob("run/checkpoints/step-50.npz")):
        time.sleep(0.01)
    first.send_signal(signal.SIGTERM)
    output, errors = first.communicate()
    assert first.returncode == 143, errors
    assert output.startswith("200 steps are 200 passes over the source; trainer.epochs=50 is sh")
    assert "InitializeLog" not in errors  # what TensorFlow logs while it is imported
    epoch = re.search(r"resumes after epoch (\d)\.$", output, re.MULTILINE)[1]
    assert not (folder / "run/summary.json").exists()
    config = (folder / "run/.hydra/config.yaml").read_text()
    refused = run_here("train.py", [*LINE, "seed=3"], folder)
    check_refused(refused, "Received: seed=3 instead of 0")
    assert (folder / "run/.hydra/config.yaml").read_text() == config
    resumed = re.findall(r"^epoch (\d)/4", run_well("train.py", LINE, folder), re.MULTILINE)
    assert [int(number) for number in resumed] == list(range(int(epoch) + 1, 5))
    assert json.loads((folder / "run/summary.json").read_text())["steps"] == 200
    # A finished run needs nothing that only a training needs.
    third = run_well("train.py", [*LINE, "callbacks.metrics.filename=/nope/x.csv"], folder)
    assert third == "Already finished: run\n"


def test_ctrl_c_in_the_first_seconds_leaves_nothing(tmp_path, with_features, begin):
    folder = with_features(tmp_path)
    process = begin("train.py", LINE, folder)
    time.sleep(2.5)
    before = time.perf_counter()
    process.send_signal(signal.SIGINT)
    errors = process.communicate()[1]
    assert time.perf_counter() - before < 15
    assert process.returncode in (130, -signal.SIGINT)  # the latter before the script starts
    assert process.returncode != 130 or "Traceback" not in errors
    has_started = (folder / "run/.dann-manifest.json").is_file()  # training, on a fast machine
    assert has_started or not (folder / "run").exists()


@pytest.mark.slow
def test_extended_or_overwritten_run(tmp_path, with_features, run_here, run_well, check_refused):
    folder = with_features(tmp_path)
    short = [*LINE[:5], "debug=fast", "selection=none", "hydra.run.dir=run"]
    run_well("train.py", [*short, "trainer.steps=3"], folder, None)  # without an output
    longer = [*short, "trainer.steps=6", "resume=true"]
    output = run_well("train.py", longer, folder)
    assert "Resumes with schedule.total_steps=3, as the run began\n" in output
    assert "Deleted the results of the previous classifier: classifier.keras" in output
    assert re.findall(r"^epoch (\d)/3", output, re.MULTILINE) == ["2", "3"]
    assert json.loads((folder / "run/summary.json").read_text())["steps"] == 6
    assert run_well("train.py", longer, folder) == "Already finished: run\n"
    summary = (folder / "run/summary.json").read_text()
    (folder / "run/notes.txt").write_text("mine")
    check_refused(run_here("train.py", [*short, "seed=1"], folder), "overwrite=true")
    assert (folder / "run/summary.json").read_text() == summary
    ascii_output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    run_well("train.py", [*short, "seed=1", "overwrite=true"], folder, ascii_output)
    assert json.loads((folder / "run/summary.json").read_text())["seed"] == 1
    assert (folder / "run/notes.txt").read_text() == "mine"
