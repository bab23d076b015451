"""A model that is saved, loaded and trained on ends with the bits of one that was never saved."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from saved_training import MODELS, bits, started, trained
from support import lacking

drawing_by_seeds = [
    pytest.param(name, marks=lacking.seeded_dropout) if name == "dropout" else name
    for name in MODELS
]
PROGRAM = pathlib.Path(__file__).with_name("saved_training.py")


@pytest.mark.parametrize("name", drawing_by_seeds)
def test_a_model_that_was_saved_in_between_trains_as_if_it_was_not(name, tmp_path):
    whole = trained(*started(name), 0, 3)
    model, pairs = started(name)
    trained(model, pairs, 0, 1).save(tmp_path / "model.keras")
    keras.utils.set_random_seed(77)  # as in another process
    loaded = keras.models.load_model(tmp_path / "model.keras")
    trained(loaded, pairs, 1, 3)
    for one, other in zip(bits(whole), bits(loaded), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_another_process_goes_on_from_the_file_with_the_same_bits(backend, tmp_path):
    parts = {"whole": [(0, 3)], "parts": [(0, 1), (1, 3)]}
    for folder, epochs in parts.items():
        (tmp_path / folder).mkdir()
        for part in epochs:
            command = [sys.executable, PROGRAM, tmp_path / folder, *part]
            environment = {**os.environ, "KERAS_BACKEND": backend}
            subprocess.run(list(map(str, command)), env=environment, check=True)
    for name in MODELS:
        whole, other = (np.load(tmp_path / folder / f"{name}.npz") for folder in parts)
        assert whole.files == other.files
        for key in whole.files:
            np.testing.assert_array_equal(whole[key], other[key])


def test_the_config_says_what_to_import_where_keras_does_not_find_the_class():
    assert started("dropout")[0].get_config()["load_after"] == "import dann"
