"""Which devices are found and chosen; what they compute is in `tests/adaptation`."""

import os
import types

import keras
import pytest

from dann.training import Distribution
from dann.training import devices as module


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell cores")
@pytest.mark.parametrize(("cores", "told"), [({3}, ", 1 core"), ({0, 1}, ", 2 cores")])
def test_a_processor_has_its_name_and_the_cores_that_the_process_may_use(cores, told, monkeypatch):
    monkeypatch.setattr(module, "accelerators", list)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
    name, comma, rest = module.hardware().rpartition(", ")
    assert name
    assert comma + rest == told


@pytest.mark.parametrize(
    ("found", "told"),
    [(["H100", "H100"], "2 x H100"), (["L4", "H100", "L4"], "1 x H100 and 2 x L4")],
)
def test_accelerators_are_counted_and_named(found, told, monkeypatch):
    monkeypatch.setattr(module, "accelerators", lambda: found)
    assert module.hardware() == told


def test_jax_names_an_accelerator_by_its_product(monkeypatch):
    jax = pytest.importorskip("jax")
    devices = [
        types.SimpleNamespace(platform="cpu", device_kind="cpu"),
        types.SimpleNamespace(platform="gpu", device_kind="NVIDIA H100 80GB HBM3"),
    ]
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert module.accelerators() == ["NVIDIA H100 80GB HBM3"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("details", "told"), [({"device_name": "NVIDIA H100"}, "NVIDIA H100"), ({}, "TPU")]
)
def test_tensorflow_names_an_accelerator_by_its_product_or_its_kind(details, told, monkeypatch):
    import tensorflow as tf

    devices = [types.SimpleNamespace(device_type=kind) for kind in ("CPU", "TPU_SYSTEM", "TPU")]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda: devices)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert module.accelerators() == [told]


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
def test_more_devices_than_there_are_are_refused(monkeypatch):
    monkeypatch.setenv("NPROC", "8")
    keras.distribution.list_devices()  # from here on the processor cannot be split
    with pytest.raises(ValueError, match="no more than"):
        Distribution("data_parallel", 1000).connect()


def test_no_distribution_asks_for_no_devices():
    distribution = Distribution()
    distribution.connect()
    distribution.use()
    with distribution.scope():
        assert keras.distribution.distribution() is None
    assert distribution.leads


@pytest.mark.skipif(BACKEND == "jax", reason="JAX is what it needs")
def test_several_machines_need_jax():
    with pytest.raises(ValueError, match="KERAS_BACKEND=jax"):
        Distribution("multi_host", "all", "localhost:1234", 2, 1).connect()
