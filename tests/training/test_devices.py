"""Which devices are found and chosen; what they compute is in `tests/adaptation`."""

import os
import re
import types

import keras
import pytest

from dann.training import Distribution
from dann.training import devices as module


@pytest.mark.parametrize(
    ("found", "cores", "told"),
    [
        *(([], {3}, ".+, 1 core"), ([], {0, 1}, ".+, 2 cores")),
        *((["H100"] * 2, {3}, "2 x H100"), (["L4", "H100", "L4"], {3}, "1 x H100 and 2 x L4")),
    ],
)
def test_accelerators_are_counted_else_the_cores_that_may_be_used(found, cores, told, monkeypatch):
    monkeypatch.setattr(module, "list_accelerators", lambda: found)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores, raising=False)
    assert re.fullmatch(told, module.describe_hardware())


def test_jax_names_an_accelerator_by_its_product(monkeypatch):
    jax = pytest.importorskip("jax")
    kinds = {"cpu": "cpu", "gpu": "NVIDIA H100 80GB HBM3"}
    devices = [types.SimpleNamespace(platform=p, device_kind=k) for p, k in kinds.items()]
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert module.list_accelerators() == ["NVIDIA H100 80GB HBM3"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("details", "told"), [({"device_name": "NVIDIA H100"}, "NVIDIA H100"), ({}, "TPU")]
)
def test_tensorflow_names_an_accelerator_by_its_product_or_its_kind(details, told, monkeypatch):
    import tensorflow as tf

    devices = [types.SimpleNamespace(device_type=kind) for kind in ("CPU", "TPU_SYSTEM", "TPU")]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda: devices)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert module.list_accelerators() == [told]


BACKEND = keras.backend.backend()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"kind": "pipeline"}, ValueError),
        ({"kind": "data_parallel", "devices": 0}, ValueError),
        ({"kind": "data_parallel", "devices": True}, TypeError),
        ({"kind": "data_parallel", "devices": "two"}, TypeError),
        ({"devices": 2}, ValueError),
    ],
)
def test_what_cannot_be_is_refused(arguments, error):
    with pytest.raises(error, match="Received: "):
        Distribution(**arguments)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no distribution")
def test_more_devices_than_there_are_are_refused():
    keras.distribution.list_devices()  # from here on the processor cannot be split
    with pytest.raises(ValueError, match="at most"):
        Distribution("data_parallel", 1000).connect()


@pytest.mark.skipif(BACKEND == "jax", reason="JAX is what it needs")
def test_several_machines_need_jax():
    with pytest.raises(ValueError, match="KERAS_BACKEND=jax"):
        Distribution("multi_host", "all", "localhost:1234", 2, 1).connect()
