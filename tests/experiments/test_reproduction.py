"""Which runs are started, with a script that only pretends to train."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import keras
import pytest

from dann.config.schema import PathsConfig, ReproduceConfig, ResultsPageConfig
from dann.experiments.reproduction import Reproduction
from dann.experiments.results import read_results, write_results
from dann.training import RunDirectory

SCRIPT = textwrap.dedent("""
    import json, pathlib, sys
    values = dict(part.split("=", 1) for part in sys.argv[1:] if "=" in part)
    with open("calls.txt", "a") as file:
        file.write(" ".join(sys.argv[1:]) + "\\n")
    for seed in values["seed"].split(","):
        if values["method"] == "broken" and seed == "1":
            sys.exit("broken at seed 1")
        folder = pathlib.Path(values["hydra.sweep.dir"]) / f"seed_{seed}"
        folder.mkdir(parents=True)
        summary = {"seed": int(seed), "source": "A", "target": "B", "steps": 3, "seconds": 1.0,
                   "cpu_seconds": 2.0, "hardware": "x", "source/accuracy": 0.5,
                   "target/accuracy": 0.25 + int(seed) / 4}
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "digest").write_text(values.get("digest", "first"))
""")

SETTINGS = ReproduceConfig(
    experiments=["a_to_b"],
    methods=["dann"],
    seeds=[0, 1],
    overrides=[],
    runs_dir="runs",
    results="docs/results.csv",
    page=ResultsPageConfig("Mine", "python mine.py", "On my machine.", [], {}, {}, {}, {}, {}),
    paths=PathsConfig(cache_dir="cache"),
)


@pytest.fixture
def reproduce(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)

    def start(**changes):
        settings = dataclasses.replace(SETTINGS, **changes)
        return Reproduction(settings, tmp_path / "train.py", digest_of_command, digest_of_run)

    return start


def digest_of_command(arguments):
    return next((a[7:] for a in arguments if a.startswith("digest=")), "first")


def digest_of_run(folder):
    file = folder / "digest"
    return file.read_text() if file.is_file() else None


def calls(tmp_path):
    file = tmp_path / "calls.txt"
    return file.read_text().splitlines() if file.is_file() else []


def test_every_experiment_method_and_seed_is_run_and_lands_in_the_table(reproduce, tmp_path):
    assert reproduce(methods=["dann", "source_only"], jobs=2).run() == []
    results = read_results(tmp_path / "docs/results.csv")
    assert [(r.method, r.seed, r.target_accuracy) for r in results] == [
        ("dann", 0, 0.25),
        ("dann", 1, 0.5),
        ("source_only", 0, 0.25),
        ("source_only", 1, 0.5),
    ]
    assert "0.3750 ± 0.1768" in (tmp_path / "docs/results.md").read_text()
    assert len(calls(tmp_path)) == 2
    assert "-m experiment=a_to_b method=dann compare=false seed=0,1" in " ".join(calls(tmp_path))


def test_a_method_may_bring_arguments_of_its_own(reproduce, tmp_path):
    for _ in range(2):
        assert reproduce(methods=["mdd schedule=mdd"]).run() == []
    [call] = calls(tmp_path)
    assert "-m experiment=a_to_b method=mdd schedule=mdd compare=false seed=0,1" in call
    results = read_results(tmp_path / "docs/results.csv")
    assert [r.method for r in results] == ["mdd schedule=mdd"] * 2
    assert "| MDD, schedule=mdd | 0.3750" in (tmp_path / "docs/results.md").read_text()


@pytest.mark.parametrize("shared", ["regularizer=mcc", "regularizers.mcc.weight=2"])
def test_the_baselines_run_without_regularizers_unless_they_ask_for_them(
    reproduce, tmp_path, shared
):
    methods = ["source_only", "target_only regularizer=vat", "dann"]
    assert reproduce(methods=methods, seeds=[0], overrides=[shared, "balanced=true"]).run() == []
    given = [call.partition(" seed=")[0] for call in calls(tmp_path)]
    assert given == [
        "-m experiment=a_to_b method=source_only regularizer=none compare=false balanced=true",
        "-m experiment=a_to_b method=target_only regularizer=vat compare=false "
        f"{shared} balanced=true",
        f"-m experiment=a_to_b method=dann compare=false {shared} balanced=true",
    ]


def test_a_run_in_the_table_is_not_repeated(reproduce, tmp_path):
    reproduce(seeds=[0]).run()
    reproduce(seeds=[0]).run()
    assert len(calls(tmp_path)) == 1
    reproduce(seeds=[0, 1, 2]).run()
    assert "seed=1,2 " in calls(tmp_path)[1]
    assert [r.seed for r in read_results(tmp_path / "docs/results.csv")] == [0, 1, 2]


def test_runs_of_a_row_are_told_how_far_they_agree(reproduce, tmp_path):
    reproduce(seeds=[0, 1, 2]).run()
    folder = tmp_path / "runs/a_to_b/dann/first"
    for seed, classes in enumerate(([0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0])):
        run = RunDirectory(folder / f"seed_{seed}")
        run.write_summary({**run.summary(), "oracle": False})
        run.write_target_classes("digest", classes)

    def agreements():
        results = read_results(tmp_path / "docs/results.csv")
        return [result.measures.get("score/agreement") for result in results]

    assert agreements() == [None, None, None]
    reproduce(seeds=[0, 1, 2]).run()
    assert agreements() == [0.5, 0.5, 0.0]
    reproduce(seeds=[0, 1]).run()  # fewer seeds, but the whole row is compared
    assert agreements() == [0.5, 0.5, 0.0]
    RunDirectory(folder / "seed_2").write_target_classes("digest", [0, 1, 0, 1])
    (folder / "seed_2/digest").write_text("of other settings")
    reproduce(seeds=[0, 1]).run()
    assert agreements() == [0.5, 0.5, 0.0]


def test_a_finished_run_that_is_missing_from_the_table_is_added(reproduce, tmp_path):
    reproduce(seeds=[0]).run()
    (tmp_path / "docs/results.csv").unlink()
    reproduce(seeds=[0]).run()
    assert len(calls(tmp_path)) == 1
    assert len(read_results(tmp_path / "docs/results.csv")) == 1


def test_the_page_has_its_title_and_links_to_its_table_and_to_the_notes_beside_it(
    reproduce, tmp_path
):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/experiments.md").write_text("# Experiments\n\n## a_to_b\n\nIt works.\n")
    reproduce(experiments=["a_to_b", "b_to_a"], seeds=[0]).run()
    page = (tmp_path / "docs/results.md").read_text()
    assert page.startswith(
        "# Mine\n\n`python mine.py` makes this page from [results.csv](results.csv), "
    )
    assert "\nOn my machine.\n" in page
    assert "](experiments.md#a_to_b)" in page
    assert "](experiments.md#b_to_a)" not in page


def test_a_row_takes_no_runs_by_another_backend(reproduce, tmp_path):
    reproduce(seeds=[0]).run()
    other = "torch" if keras.backend.backend() == "jax" else "jax"
    [result] = read_results(tmp_path / "docs/results.csv")
    write_results(
        [dataclasses.replace(result, hardware=f"a GPU, {other}")], tmp_path / "docs/results.csv"
    )
    reproduce(seeds=[0]).run()  # nothing is left to do
    with pytest.raises(ValueError, match=f"dann by another backend; set KERAS_BACKEND={other}, "):
        reproduce(seeds=[0, 1])
    reproduce(seeds=[1], results="mine.csv").run()
    assert len(read_results(tmp_path / "mine.csv")) == 1


def test_a_table_with_results_of_other_settings_raises_an_error(reproduce, tmp_path):
    reproduce(seeds=[0]).run()
    before = (tmp_path / "docs/results.csv").read_text()
    with pytest.raises(ValueError, match="a_to_b dann with other settings.*second beside first"):
        reproduce(seeds=[1], overrides=["digest=second"])
    assert (tmp_path / "docs/results.csv").read_text() == before
    reproduce(seeds=[1], overrides=["digest=second"], results="other.csv").run()
    assert [r.settings for r in read_results(tmp_path / "other.csv")] == ["second"]


DRIVER = """
import pathlib, signal, time, types
from dann.experiments.processes import ended_by_interruption
from dann.experiments.reproduction import Reproduction
settings = types.SimpleNamespace(
    experiments=["e1", "e2", "e3"], methods=["dann"], seeds=[0], overrides=[], jobs=1,
    runs_dir="runs", results="results.csv",
    page=types.SimpleNamespace(
        title="", command="", note="", summary=[], bars={}, published={}, without_adversary={},
        causes={}, names={},
    ),
    paths=types.SimpleNamespace(data_dir=None, cache_dir="cache"),
)

with ended_by_interruption():
    handler = signal.getsignal(signal.SIGINT)
    # As on a busy machine: the run in progress is long gone by then.
    signal.signal(signal.SIGINT, lambda *args: (time.sleep(1), handler(*args)))
    Reproduction(settings, pathlib.Path("sleep.py"), lambda a: "x", lambda f: None).run()
"""

SLEEP = """
import os, pathlib, time
pathlib.Path("begun.part").write_text(str(os.getpid()))
os.rename("begun.part", "begun")
time.sleep(20)
"""


def is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGINT), (os.kill, signal.SIGTERM)],
    ids=["ctrl-c", "interrupt", "terminate"],
)
def test_an_interruption_ends_every_run_and_begins_no_other(send, number, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "sleep.py").write_text(SLEEP)
    arguments = [sys.executable, "driver.py"]
    with subprocess.Popen(
        arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        while not (tmp_path / "begun").exists():
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.05)
        time.sleep(0.3)  # while which no other is lined up
        send(process.pid, number)
        after = process.stdout.read()
    assert begun.startswith("e1 dann: seeds [0]")
    assert after == ""
    assert process.returncode == 128 + number
    until = time.monotonic() + 5
    while is_running(int((tmp_path / "begun").read_text())):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_an_interrupted_run_is_removed_and_a_finished_one_stays(reproduce, tmp_path):
    finished, remains = (tmp_path / f"runs/a_to_b/dann/first/seed_{seed}" for seed in (0, 1))
    reproduce(seeds=[0]).run()
    (finished / "notes").touch()
    (remains / "tensorboard").mkdir(parents=True)
    reproduce().run()
    assert {path.name for path in finished.iterdir()} == {"digest", "notes", "summary.json"}
    assert {path.name for path in remains.iterdir()} == {"digest", "summary.json"}


def test_a_finished_run_of_other_settings_is_not_removed(reproduce, tmp_path):
    other = tmp_path / "runs/a_to_b/dann/first/seed_0"
    other.mkdir(parents=True)
    (other / "digest").write_text("other")
    assert reproduce(seeds=[0]).run() == ["a_to_b dann"]  # the script finds the folder there
    assert (other / "digest").read_text() == "other"


FAST_AND_SLOW = """
import pathlib, sys, time
name = next(part for part in sys.argv if part.startswith("method="))
time.sleep(20 if "never" in name else 0.5 if "slow" in name else 0)
pathlib.Path(name).touch()
"""


class BrokenError(OSError):
    """What goes wrong as soon as the fast run is over."""


def break_down(reproduction, tmp_path):
    def broken(folder):
        if (tmp_path / "method=fast").exists():
            raise BrokenError("no such disk")

    reproduction.digest_of_run = broken


def test_an_error_ends_no_run_in_progress(reproduce, tmp_path):
    (tmp_path / "train.py").write_text(FAST_AND_SLOW)
    reproduction = reproduce(methods=["fast", "slow"], jobs=2)
    break_down(reproduction, tmp_path)
    with pytest.raises(BrokenError):
        reproduction.run()
    assert (tmp_path / "method=slow").exists()


def test_an_interruption_after_an_error_ends_every_run(reproduce, tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(FAST_AND_SLOW)
    reproduction = reproduce(methods=["fast", "never"], jobs=2)
    break_down(reproduction, tmp_path)

    def interrupted(pool, wait=True):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduction.run()
    assert reproduction.processes.run([sys.executable, "-c", ""]) == -1  # all are ended
    assert not (tmp_path / "method=never").exists()


def test_two_methods_with_the_same_settings_raise_an_error(reproduce):
    with pytest.raises(ValueError, match="different settings. Received: 'dann' and 'dann x=0'"):
        reproduce(methods=["dann", "dann x=0"])


def test_a_failed_run_stops_no_other_and_is_named(reproduce, tmp_path):
    assert reproduce(methods=["broken", "dann"]).run() == ["a_to_b broken"]
    results = read_results(tmp_path / "docs/results.csv")
    assert [(r.method, r.seed) for r in results] == [("broken", 0), ("dann", 0), ("dann", 1)]
    log = (tmp_path / "runs/a_to_b/broken/first/log.txt").read_text()
    assert "broken at seed 1" in log


def test_rows_of_other_experiments_stay(reproduce, tmp_path):
    reproduce(seeds=[0]).run()
    reproduce(experiments=["b_to_a"], seeds=[0]).run()
    results = read_results(tmp_path / "docs/results.csv")
    assert [r.experiment for r in results] == ["a_to_b", "b_to_a"]


def test_processes_side_by_side_share_the_cores(reproduce, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert reproduce(jobs=2)._environment()["TF_NUM_INTRAOP_THREADS"] == "4"
    assert reproduce(jobs=1)._environment() is None


def test_fewer_than_one_job_raises_an_error(reproduce):
    with pytest.raises(ValueError, match="`jobs`.*Received: jobs=0"):
        reproduce(jobs=0)


@pytest.mark.parametrize("name", ["experiments", "methods", "seeds"])
def test_an_empty_list_raises_an_error(reproduce, name):
    with pytest.raises(ValueError, match=f"`{name}` must name at least one. Received: none"):
        reproduce(**{name: []})


def test_a_file_of_something_else_is_not_overwritten(reproduce, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/results.csv").write_text(json.dumps({"mine": 1}))
    with pytest.raises(ValueError, match="must have the columns"):
        reproduce()
