"""A model that is saved, loaded and trained on ends with the bits of one that was never saved."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from dann.training.callbacks import on_final_weights
from support import lacking
from support.saved_training import FEATURES, LABELS, MODELS, bits, started, trained

from dann.adaptation.training_state import put_trained_back

drawing_by_seeds = [
    pytest.param(name, marks=lacking.seeded_dropout) if name in ("dropout", "averages") else name
    for name in MODELS
]
PROGRAM = pathlib.Path(__file__).parents[1] / "support/saved_training.py"


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


def test_weights_that_were_set_after_averaging_are_those_that_train():
    model, pairs = started("averages")
    trained(model, pairs, 0, 1)
    model.set_weights([np.full_like(weight, 0.5) for weight in model.get_weights()])
    put_trained_back(model)
    for weight in model.trainable_variables:
        np.testing.assert_array_equal(weight, 0.5)


@lacking.seeded_dropout
def test_evaluating_averages_between_compiled_epochs_changes_nothing():
    model, pairs = started("averages", compiled=True)
    whole = trained(model, pairs, 0, 3)
    model, pairs = started("averages", compiled=True)
    evaluate = lambda *_: model.evaluate(FEATURES, LABELS, verbose=0)  # noqa: E731
    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=evaluate)]
    trained(model, pairs, 0, 1)
    evaluate()
    trained(model, pairs, 1, 3, callbacks=on_final_weights(model.optimizer, callbacks))
    for one, other in zip(bits(whole), bits(model), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_file_without_the_seeds_still_loads(tmp_path, monkeypatch):
    from dann.adaptation import pair_classifier

    monkeypatch.setattr(pair_classifier, "save_training_state", lambda *_: None)
    model, _ = started("dropout")
    model.save(tmp_path / "old.keras")
    loaded = keras.models.load_model(tmp_path / "old.keras", compile=False)
    np.testing.assert_array_equal(loaded.predict(FEATURES), model.predict(FEATURES))


def test_a_process_without_dann_is_told_to_import_it(tmp_path):
    model, pairs = started("averages")
    trained(model, pairs, 0, 1).save(tmp_path / "model.keras")
    program = f"import keras; keras.models.load_model({str(tmp_path / 'model.keras')!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Could not locate class" in done.stderr
    assert "'load_after': 'import dann'" in done.stderr
