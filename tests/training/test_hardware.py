"""What a run says that it ran on."""

import os

import pytest

from dann.training import hardware as module


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell cores")
@pytest.mark.parametrize(("cores", "told"), [({3}, ", 1 core"), ({0, 1}, ", 2 cores")])
def test_a_processor_has_its_name_and_the_cores_that_the_process_may_use(cores, told, monkeypatch):
    monkeypatch.setattr(module, "accelerators", list)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
    name, comma, rest = module.hardware().rpartition(", ")
    assert name
    assert comma + rest == told


def test_accelerators_are_counted_and_named(monkeypatch):
    monkeypatch.setattr(module, "accelerators", lambda: ["H100:0", "H100:1"])
    assert module.hardware() == "2 x H100"
