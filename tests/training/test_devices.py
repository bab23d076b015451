"""Names of devices. tests/adaptation tests what several devices compute."""

import os
import re
import types

import keras
import pytest

from dann.training import devices as module


@pytest.mark.parametrize(
    ("accelerators", "cores", "description"),
    [
        ([], {3}, ".+, 1 core"),
        ([], {0, 1}, ".+, 2 cores"),
        (["H100"] * 2, {3}, "2 x H100"),
        (["L4", "H100", "L4"], {3}, "1 x H100 and 2 x L4"),
    ],
)
def test_hardware_counts_accelerators_or_usable_cores(
    accelerators, cores, description, monkeypatch
):
    monkeypatch.setattr(module, "list_accelerators", lambda: accelerators)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores, raising=False)
    assert re.fullmatch(description, module.describe_hardware())


def test_accelerator_of_jax_has_its_product_name(monkeypatch):
    jax = pytest.importorskip("jax")
    kinds = {"cpu": "cpu", "gpu": "NVIDIA H100 80GB HBM3"}
    devices = [types.SimpleNamespace(platform=p, device_kind=k) for p, k in kinds.items()]
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert module.list_accelerators() == ["NVIDIA H100 80GB HBM3"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("details", "name"), [({"device_name": "NVIDIA H100"}, "NVIDIA H100"), ({}, "TPU")]
)
def test_accelerator_of_tensorflow_has_its_product_name(details, name, monkeypatch):
    import tensorflow as tf

    devices = [types.SimpleNamespace(device_type=kind) for kind in ("CPU", "TPU_SYSTEM", "TPU")]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda: devices)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert module.list_accelerators() == [name]
