"""The choice of devices; `tests/adaptation/test_several_devices.py` holds what they compute."""

import keras
import pytest

from dann.training import Distribution

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
def test_more_devices_than_there_are_are_refused():
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


def test_no_distribution_asks_for_no_devices():
    distribution = Distribution()
    distribution.split_processor()
    distribution.check()
    distribution.use()
    with distribution.scope():
        assert keras.distribution.distribution() is None
