"""The choice of devices; `tests/adaptation/test_several_devices.py` holds what they compute."""

import os

import keras
import pytest

from dann.training import Distribution
from dann.training.devices_of_backend import SPLITS

not_on_torch = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch has no distribution"
)


@pytest.mark.parametrize("devices", [0, -1, True, 1.5, "two", None])
def test_a_number_of_devices_or_all_is_expected(devices):
    with pytest.raises(ValueError, match=r"distribution.devices .*Received: "):
        Distribution("data_parallel", devices)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="None, 'data_parallel'.*Received"):
        Distribution("pipeline")


@not_on_torch
def test_more_devices_than_there_are_are_refused(monkeypatch):
    monkeypatch.setenv("NPROC", "8")
    keras.distribution.list_devices()  # from here on the processor cannot be split
    distribution = Distribution("data_parallel", 1000)
    distribution.split_processor()
    with pytest.raises(ValueError, match=r"no more than .* Received: distribution.devices=1000"):
        distribution.check()


@not_on_torch
def test_all_means_accelerators():
    if "cpu" not in keras.distribution.list_devices()[0].lower():
        pytest.skip("there are accelerators")
    with pytest.raises(ValueError, match="every accelerator"):
        Distribution("data_parallel").check()


def test_devices_without_a_distribution_are_refused():
    with pytest.raises(ValueError, match="devices is for .*data_parallel.* Received: .*devices=2"):
        Distribution(devices=2)


@pytest.mark.jax
@pytest.mark.parametrize("given", [None, "3"])
def test_xla_gets_more_threads_than_devices_that_wait_for_each_other(monkeypatch, given):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    if given is None:
        monkeypatch.delenv("NPROC", raising=False)
    else:
        monkeypatch.setenv("NPROC", given)
    SPLITS["jax"](3)
    assert os.environ["NPROC"] == (given or "12")


def test_no_distribution_asks_for_no_devices():
    distribution = Distribution()
    distribution.split_processor()
    distribution.check()
    distribution.use()
    with distribution.scope():
        assert keras.distribution.distribution() is None


@pytest.mark.parametrize("number", [0, -2, True, 1.5, "two", None])
def test_a_number_of_devices_that_share_the_weights_is_expected(number):
    with pytest.raises((TypeError, ValueError), match=r"model_parallel.* Received: "):
        Distribution("data_parallel", 2, model_parallel=number)


def test_groups_that_share_the_weights_are_of_one_size():
    with pytest.raises(ValueError, match="a multiple of 2. Received: 3 devices"):
        Distribution("data_parallel", 3, model_parallel=2)


def test_one_device_shares_no_weights():
    with pytest.raises(ValueError, match="multi_host. Received: distribution=none with .*=2"):
        Distribution(None, model_parallel=2)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX is what it needs")
def test_devices_that_share_weights_need_jax():
    with pytest.raises(ValueError, match="KERAS_BACKEND=jax. Received: distribution"):
        Distribution("data_parallel", 2, model_parallel=2).check()


TWO = {"coordinator": "localhost:1234", "num_processes": 2, "process_id": 1}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"process_id": 2}, "process_id.* from 0 to 1. Received: .*=2"),
        ({"process_id": -1}, "process_id.* Received: .*=-1"),
        ({"num_processes": 0}, "num_processes.* Received: .*=0"),
        ({"coordinator": "localhost"}, "host:port.* Received: 'localhost'"),
        ({"coordinator": "localhost:http"}, "host:port.* Received: 'localhost:http'"),
        ({"coordinator": ":1234"}, "host:port.* Received: ':1234'"),
    ],
)
def test_processes_that_cannot_be_are_refused(changes, told):
    with pytest.raises(ValueError, match=told):
        Distribution("multi_host", **{**TWO, **changes})


@pytest.mark.parametrize("given", TWO)
def test_processes_are_of_several_machines_alone(given):
    with pytest.raises(ValueError, match="multi_host. Received: distribution=data_parallel"):
        Distribution("data_parallel", 2, **{given: TWO[given]})


def test_each_process_gets_an_equal_part():
    distribution = Distribution("multi_host", **TWO)
    distribution.check_batch_size(16)
    with pytest.raises(ValueError, match="multiple of 2. Received: batch_size=15"):
        distribution.check_batch_size(15)


def test_devices_that_cannot_share_a_batch_are_refused_before_they_are_made():
    Distribution("data_parallel", 4).check_batch_size(16)
    Distribution("data_parallel", "all").check_batch_size(15)
    Distribution("data_parallel", 6, model_parallel=2).check_batch_size(15)
    with pytest.raises(ValueError, match="9999 equal parts.* Received: batch_size=64"):
        Distribution("data_parallel", 9999).check_batch_size(64)
    with pytest.raises(ValueError, match="multiple of 2. Received: batch_size=15"):
        Distribution("data_parallel", 4, model_parallel=2).check_batch_size(15)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX is what it needs")
def test_several_machines_need_jax():
    with pytest.raises(ValueError, match="KERAS_BACKEND=jax. Received: distribution=multi_host"):
        Distribution("multi_host", **TWO).join()


SLURM = {
    "SLURM_JOB_ID": "70000",
    "SLURM_STEP_NODELIST": "node[07-09]",
    "SLURM_NTASKS": "3",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
}
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1314521088.0;tcp://10.96.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
}


@pytest.mark.parametrize(
    ("environment", "host"), [(SLURM, "node07"), (OPEN_MPI, "10.96.0.1")], ids=["slurm", "mpi"]
)
def test_what_is_not_given_is_as_the_scheduler_tells(monkeypatch, environment, host):
    pytest.importorskip("jax")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = Distribution("multi_host")
    assert (found.process_id, found.num_processes) == (2, 3)
    name, port = found.coordinator.split(":")
    assert name == host
    assert 0 < int(port) < 65536
    assert Distribution("multi_host", process_id=0).leads


def test_without_a_scheduler_the_processes_must_be_given():
    pytest.importorskip("jax")
    with pytest.raises(ValueError, match="coordinator must be .* Received: None"):
        Distribution("multi_host", num_processes=2, process_id=0)
    with pytest.raises(ValueError, match="num_processes must be given"):
        Distribution("multi_host", coordinator="localhost:1234", process_id=0)
