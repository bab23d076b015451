"""Odd commands of the scripts: each ends in a result, or in one line with nothing left."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest

from dann.training.run import Run

TESTS = pathlib.Path(__file__).parents[1]
PROGRAM = TESTS / "support/odd_commands.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}


@pytest.fixture
def untrained(monkeypatch):
    monkeypatch.setattr(Run, "train", lambda self: None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["trainer=null"],
        ["schedule=1e9"],
        ["~data"],
        ["+zzz.foo=1"],
        ["+network.more=1"],
        ["network.domain_head=0"],
        ["~network.domain_head._target_"],
        ["selection.samples='${oc.env:HOME}'"],
        ["callbacks=[1,2]"],
        ["method.strength='${no.key}'"],
        ["+trainer.stepz=1"],
        ["+experiment.more=1"],
        ["callbacks.metrics=x.y"],
        ["hydra.output_subdir=null"],
        ["hydra.output_subdir=conf"],
        ["hydra.callbacks.claim=null"],
        ["hydra.searchpath=[file:///none]"],
    ],
    ids=str,
)
def test_a_command_that_can_mean_nothing_is_refused_in_one_line(
    untrained, tmp_path, run_here, check_refused, prepared_digits, arguments
):
    check_refused(run_here("train.py", arguments, tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.tensorflow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each command is a fork of one process")
@pytest.mark.slow
def test_odd_commands_of_all_scripts_end_in_a_result_or_in_one_line(tmp_path):
    count = 500
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(count)]
    printed = subprocess.run(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
    )
    found = [json.loads(line) for line in printed.stdout.splitlines()]
    assert len(found) == count
    assert len({one["script"] for one in found}) == 7
    print(collections.Counter((one["script"], one["end"]) for one in found))
    assert [one for one in found if one["end"] == "badly"] == []
    ends = [one["end"] for one in found]
    assert ends.count("refused") >= count / 7
    assert ends.count("result") >= count / 7
