"""The choice of devices; `tests/adaptation/test_several_devices.py` holds what they compute."""

import keras
import pytest

from dann.training import Distribution

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
