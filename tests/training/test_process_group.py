"""Processes that meet, without a training."""

import json
import os
import socket
import subprocess
import sys

import pytest

MEET = """
import json, sys, time
from dann.training.process_group import ProcessGroup
address, count, number, settings = json.loads(sys.argv[1])
group = ProcessGroup(address, count, number, settings)
try:
    group.connect(60)
except ConnectionError as error:
    sys.exit(str(error))
group.leave()
"""


def meet(*settings):
    """Exit statuses and last words of processes with these settings, process 0 first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "DANN_LAZY_IMPORT": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEET, json.dumps([address, len(settings), number, own])],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, own in enumerate(settings)
    ]
    said = [process.communicate(timeout=120)[1] for process in processes]
    return [process.returncode for process in processes], said


@pytest.mark.parametrize("settings", [({},), ({"a": 1}, {"a": 1}), ({}, {}, {})])
def test_processes_with_equal_settings_meet_and_leave(settings):
    assert meet(*settings) == ([0] * len(settings), [""] * len(settings))


def test_all_hear_which_settings_differ_and_at_most_five_of_each():
    many = dict.fromkeys("bcdefgh", 2)
    statuses, said = meet({"a": 1, "same": 0}, {"a": 2, "same": 0}, {"a": 1, "same": 0, **many})
    assert statuses == [1, 1, 1]
    (first,) = said[0].splitlines()
    assert "from process 0 and process 1: a 1, 2" in first
    told = "; ".join(f"{name} none, 2" for name in "bcdef")
    assert f"from process 0 and process 2: {told}; and 2 more" in first
    assert all(first in one for one in said)
