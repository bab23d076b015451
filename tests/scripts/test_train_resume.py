"""`scripts/train.py` is stopped and resumes with the same command."""

import json
import re
import signal
import time

import pytest

LINE = [
    *("data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp", "compare=false"),
    *("selection=none", "trainer.steps=400", "trainer.steps_per_epoch=100"),
    *("trainer.batch_size=8", "hydra.run.dir=run", "resume=true", "schedule=constant"),
    *("optimizer=adam", "trainer.steps_per_execution=1"),
]


def test_run_stopped_by_a_scheduler_resumes(
    tmp_path, with_features, begin, run_here, run_well, check_refused
):
    folder = with_features(tmp_path)
    first = begin("train.py", LINE, folder)
    while first.poll() is None and not list(folder.glob("run/checkpoints/step-100.npz")):
        time.sleep(0.01)
    first.send_signal(signal.SIGTERM)
    output, errors = first.communicate()
    assert first.returncode == 143, errors
    epoch = re.search(r"resumes after epoch (\d)\.$", output, re.MULTILINE)[1]
    assert not (folder / "run/summary.json").exists()
    config = (folder / "run/.hydra/config.yaml").read_text()
    refused = run_here("train.py", [*LINE, "seed=3"], folder)
    check_refused(refused, "Received: seed=3 instead of 0")
    assert (folder / "run/.hydra/config.yaml").read_text() == config
    resumed = re.findall(r"^epoch (\d)/4", run_well("train.py", LINE, folder), re.MULTILINE)
    assert [int(number) for number in resumed] == list(range(int(epoch) + 1, 5))
    assert json.loads((folder / "run/summary.json").read_text())["steps"] == 400
    # A finished run needs nothing that only a training needs.
    third = run_well("train.py", [*LINE, "callbacks.metrics.filename=/nope/x.csv"], folder)
    assert third == "Already finished: run\n"


@pytest.mark.parametrize("seconds", [0.8, 2.5])
def test_ctrl_c_in_the_first_seconds_leaves_nothing(seconds, tmp_path, with_features, begin):
    folder = with_features(tmp_path)
    process = begin("train.py", LINE, folder)
    time.sleep(seconds)
    before = time.perf_counter()
    process.send_signal(signal.SIGINT)
    errors = process.communicate()[1]
    assert time.perf_counter() - before < 15
    assert process.returncode in (130, -signal.SIGINT)  # the latter before the script starts
    assert process.returncode != 130 or "Traceback" not in errors
    has_started = (folder / "run/.dann-manifest.json").is_file()  # training, on a fast machine
    assert has_started or not (folder / "run").exists()


def test_only_overwrite_replaces_a_finished_run(
    tmp_path, with_features, run_here, run_well, check_refused
):
    folder = with_features(tmp_path)
    command = [*LINE[:4], "debug=fast", "callbacks=none", "hydra.run.dir=run"]
    run_well("train.py", command, folder)
    summary = (folder / "run/summary.json").read_text()
    (folder / "run/notes.txt").write_text("mine")
    for overrides, words in (([], "Expected no finished run"), (["seed=1"], "overwrite=true")):
        refused = run_here("train.py", [*command, *overrides], folder)
        check_refused(refused, words)
        assert (folder / "run/summary.json").read_text() == summary
    run_well("train.py", [*command, "seed=1", "overwrite=true"], folder)
    assert json.loads((folder / "run/summary.json").read_text())["seed"] == 1
    assert (folder / "run/notes.txt").read_text() == "mine"


def test_finished_run_becomes_longer(tmp_path, with_features, run_well):
    folder = with_features(tmp_path)
    short = [*LINE[:4], "debug=fast", "callbacks=none", "hydra.run.dir=run", "trainer.steps=3"]
    run_well("train.py", short, folder)
    longer = [*short[:-1], "trainer.steps=6", "resume=true"]
    output = run_well("train.py", longer, folder)
    assert "Resumes with schedule.total_steps=3, as the run began\n" in output
    assert re.findall(r"^epoch (\d)/3", output, re.MULTILINE) == ["2", "3", "2", "3"]
    assert json.loads((folder / "run/summary.json").read_text())["steps"] == 6
    assert run_well("train.py", longer, folder) == "Already finished: run\n"
