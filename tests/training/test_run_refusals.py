"""Calls that are refused before a training, and the words that the user needs."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
from small_runs import TRAINER, build_model, train_small

from dann.adaptation import DANN, TargetOnly
from dann.config.schema import SelectionConfig
from dann.training import Distribution

BACKEND = keras.backend.backend()
UNLABELLED = np.zeros((4, 8, 8, 1), "uint8"), None
SELECTION = SelectionConfig(scores=["source_accuracy", "info_max"], samples=8)
untrained = functools.cache(build_model)


def run(trainer=None, selection=None, method=DANN, **data):
    """Returns a call that trains a small run with other settings in a folder."""

    def call(domains, folder):
        settings = {"trainer": dataclasses.replace(TRAINER, **(trainer or {}))}
        if selection is not None:
            settings["selection"] = dataclasses.replace(SELECTION, **selection)
        train_small(folder, dataclasses.replace(domains, **data), untrained(method), **settings)

    return call


def equal_test_sets(domains, folder):
    run(selection={}, target_test=domains.source_test)(domains, folder)


def distribution(*arguments, **settings):
    return lambda domains, folder: Distribution(*arguments, **settings)


def connect(*arguments):
    return lambda domains, folder: Distribution(*arguments).connect()


REFUSALS = {
    "no step": (run({"steps": 0}), "trainer.steps"),
    "part of a call": (
        run({"steps": 5, "steps_per_execution": 2}),
        "trainer.steps and trainer.steps_per_epoch must be multiples of",
    ),
    "batch larger than the source": (run({"batch_size": 20}), "20"),
    "oracle curve without labels": (
        run({"oracle_curve": True}, target_test=UNLABELLED),
        "trainer.oracle_curve needs labels",
    ),
    "oracle without labels": (run(method=TargetOnly), "labels of the target"),
    "keep that is no score": (run(selection={"keep": "bnm"}), "selection.keep"),
    "equal test sets": (equal_test_sets, "the same test set for both domains"),
    "unknown distribution": (distribution("pipeline"), "distribution.kind"),
    "devices as a text": (distribution("data_parallel", "two"), "distribution.devices"),
}
if BACKEND != "torch":
    REFUSALS["too many devices"] = connect("data_parallel", 1000), "Expected at most"
if BACKEND != "jax":
    several_hosts = connect("multi_host", "all", "localhost:1234", 2, 1)
    REFUSALS["several hosts without JAX"] = several_hosts, "KERAS_BACKEND=jax"


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_name_the_setting(case, domains, tmp_path):
    keras.distribution.list_devices()  # from here on, the processor cannot be split
    call, words = REFUSALS[case]
    with pytest.raises((TypeError, ValueError), match=words):
        call(domains, tmp_path)
    assert not list(tmp_path.iterdir())
