"""What the benchmarks keep for the page."""

import json
import sys

import numpy as np
import pytest

from benchmarks import record
from benchmarks.commands import run_python
from benchmarks.suites.startup import StartupSuite
from benchmarks.suites.whole_run import RunSuite
from benchmarks.timing import Comparison, Times, table


def compared(*cpu):
    times = {"rival": Times(np.ones(len(cpu)), np.ones(len(cpu)))}
    times["dann"] = Times(np.array(cpu), 2 * np.array(cpu))
    return Comparison("a task", times, notes={"dann": "8 bytes"}, own_remark="all of it")


def test_a_file_keeps_what_was_measured_and_the_other_suites(tmp_path):
    path = tmp_path / "performance.json"
    (tmp_path / "images").mkdir()
    for suite, cpu in (("step", (0.5, 0.25)), ("run", (3.0,)), ("step", (0.75, 0.5))):
        record.write(path, suite, [compared(*cpu)], "a machine", 1)
    known = record.read(path)
    assert set(known) == {"run", "step"}
    assert known["step"]["hardware"] == "a machine"
    assert known["step"]["packages"]["numpy"] == np.__version__
    (found,) = record.comparisons_of(known["step"]["comparisons"])
    assert table([found]) == table([compared(0.75, 0.5)])
    assert (tmp_path / "images/performance_step.png").read_bytes().startswith(b"\x89PNG")


def test_the_rounds_of_several_processes_are_joined():
    (found,) = record.joined([[compared(0.5, 0.25)], [compared(0.75)]])
    np.testing.assert_array_equal(found.ratios("dann"), [0.5, 0.25, 0.75])
    assert (found.task, found.remark, found.notes) == ("a task", "all of it", {"dann": "8 bytes"})


def test_a_suite_is_measured_in_processes_of_its_own(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        "given = dict(one.split('=', 1) for one in sys.argv[1:])\n"
        "assert given['suite'] == 'step' and given['processes'] == '1', given\n"
        "times = {'dann': {'cpu': [float(given['cpu'])], 'wall': [float(os.environ['WALL'])]}}\n"
        "one = {'task': 'a', 'reference': 'dann', 'notes': {}, 'sizes': [], 'remark': ''}\n"
        "one['times'] = times\n"
        "pathlib.Path(given['record']).write_text(json.dumps({'step': {'comparisons': [one]}}))\n"
    )
    monkeypatch.setattr(sys, "argv", [str(script), "suite=all", "cpu=2.5", "processes=3"])
    monkeypatch.setenv("WALL", "1")
    (found,) = record.in_processes("step", 3)
    np.testing.assert_array_equal(found.times["dann"].cpu, [2.5, 2.5, 2.5])
    (found,) = record.in_processes("step", 1, ["cpu=3"], {"WALL": "7"})
    assert (found.times["dann"].cpu, found.times["dann"].wall) == ([3], [7])
    with pytest.raises(SystemExit, match="a process of suite=step ended with status 1"):
        record.in_processes("step", 1, ["suite=run"])


def test_a_command_that_ends_as_it_should_not_is_told(tmp_path):
    run_python(["-c", "import sys; sys.exit(3)"], status=3)
    with pytest.raises(RuntimeError, match="Expected exit status 0. Received: 3 .*: no\n"):
        run_python(["-c", "import sys; print('no', file=sys.stderr); sys.exit(3)"])


@pytest.mark.slow
def test_the_commands_that_only_look_are_timed(tmp_path):
    commands, imports = StartupSuite(["trainer.stps=1"], rounds=1).measure()
    assert list(commands.times)[0] == "import hydra"
    assert commands.ratios("dann, train.py trainer.stps=1")[0] > 1
    assert imports.ratios("dann")[0] > 0.5


@pytest.mark.slow
def test_runs_take_turns_with_those_of_another_checkout(tmp_path):
    script = tmp_path / "scripts" / "train.py"
    script.parent.mkdir()
    script.write_text("import sys; assert 'debug=fast' in sys.argv")
    suite = RunSuite({"fast": ["debug=fast"]}, before=str(tmp_path), rounds=1)
    (found,) = suite.measure()
    assert found.task == "fast"
    assert found.ratios("dann, now")[0] > 2
    with pytest.raises(ValueError, match="folder of a checkout. Received: /nowhere"):
        RunSuite({"fast": []}, before="/nowhere")


def test_the_newest_instructions_are_those_of_the_processor_or_what_numpy_needs(monkeypatch):
    known = np.show_config(mode="dicts")["SIMD Extensions"]
    assert record.instructions() in [*known["baseline"], *known.get("found", ())]
    told = {"SIMD Extensions": {"baseline": ["A", "B"]}}
    monkeypatch.setattr(np, "show_config", lambda mode: told)
    assert record.instructions() == "B"


def test_the_page_is_made_of_what_is_kept():
    known = json.loads(record.PLACE.read_text())
    assert all(one["comparisons"] for one in known.values())
