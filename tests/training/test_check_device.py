"""The check of the devices: it passes on this machine, and each thing that is broken is told."""

import pathlib
import runpy
import signal
import sys

import keras
import pytest

from dann.layers import gradient_reversal
from dann.training import check_device as checked
from dann.training.check_device import DeviceError, check_device

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_device.py"


def told_by_script(monkeypatch, capsys, *arguments):
    """Exit status, standard output and standard error of the script."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    monkeypatch.setattr(signal, "signal", lambda *given: None)  # the test's process keeps its own
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return stop.value.code, *capsys.readouterr()


def test_this_machine_passes_every_check(monkeypatch, capsys):
    status, lines, errors = told_by_script(monkeypatch, capsys)
    assert (status, errors) == (0, "")
    beginnings = [line.partition(":")[0] for line in lines.splitlines()]
    precisions = ["float32", "mixed_bfloat16", "mixed_float16", "float32"]
    steps = [f"step in {precision}" for precision in precisions]
    first = ["devices", "reversal, eager", "reversal, compiled"]
    last = ["time of a step", "peak memory of the first device", "All is well."]
    assert beginnings == [*first, *steps, *last]


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda x, strength, way: strength * x, "Received: 0.7 times it"),
        (lambda x, strength, way: -2 * strength * x, "Received: -1.4 times it"),
        (
            lambda x, strength, way: -(strength + 2e-7 * (way == "override")) * x,
            "both ways of the eager reversal",
        ),
    ],
)
def test_a_wrong_reversal_ends_the_script_with_one_line(broken, told, monkeypatch, capsys):
    monkeypatch.setattr(checked, "reverse_gradient", broken)
    status, _, errors = told_by_script(monkeypatch, capsys)
    assert status == 1
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert told in errors


@pytest.mark.parametrize("devices", ["0", "1000"])
def test_a_number_of_devices_that_cannot_be_had_is_refused(devices, monkeypatch, capsys):
    if keras.backend.backend() != "torch":
        keras.distribution.list_devices()  # from here on the processor cannot be split
    status, lines, errors = told_by_script(monkeypatch, capsys, "--devices", devices)
    assert (status, lines, errors.count("\n")) == (1, "", 1)
    assert errors.startswith("error: ")
    assert "Received: " in errors


def test_a_step_that_does_not_reverse_differs_from_one_by_hand(monkeypatch):
    monkeypatch.setattr(gradient_reversal, "reverse_gradient", lambda inputs, *_, **__: inputs)
    with pytest.raises(DeviceError, match="step written by hand"):
        list(checked._step())


def test_a_precision_with_too_few_digits_is_told(monkeypatch):
    allowed = checked._TOLERANCES["mixed_bfloat16"]
    monkeypatch.setattr(checked, "_TOLERANCES", {"mixed_bfloat16": 4e-3})
    with pytest.raises(DeviceError, match="mixed_bfloat16 within 0.004 .* Received: ") as raised:
        list(checked._precisions())
    received = str(raised.value).rpartition("Received: ")[2]
    assert 4e-3 < float(received.split()[0]) < allowed


def test_an_error_of_the_backend_is_told_in_one_line(monkeypatch):
    def fails(*_):
        raise RuntimeError("no memory left\non the device")

    monkeypatch.setattr(checked, "gradient", fails)
    with pytest.raises(DeviceError, match="Received: RuntimeError, no memory left$"):
        list(check_device())


def test_the_precision_stays_as_it_was(monkeypatch):
    keras.config.set_dtype_policy("mixed_bfloat16")
    monkeypatch.setattr(checked, "_reversal", lambda: iter(()))
    monkeypatch.setattr(checked, "_precisions", lambda: checked._update("float32") and iter(()))
    monkeypatch.setattr(checked, "_step", lambda: iter(()))
    list(check_device())
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
