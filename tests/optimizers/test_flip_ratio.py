"""Shares of flips against those of a loop in NumPy."""

import keras
import numpy as np
import pytest
from constant_gradient import BATCH, INPUTS, bop_in_numpy, sum_of_layers, train, values

from dann.optimizers import Bop, FlipRatio, PerVariable

STEPS = len(INPUTS) // BATCH


def shares(signs, every):
    """The share of signs that differ `every` steps later."""
    looks = signs[::every]
    return [np.mean(a != b) for a, b in zip(looks[:-1], looks[1:], strict=True)]


@pytest.mark.parametrize("every", [None, 1, 4])
def test_the_mean_over_an_epochs_looks_is_logged_by_layer(every):
    model = sum_of_layers("one", "two", "float", binary=["one", "two"])
    settings = {"one": (0.3, 0.02), "two": (0.2, 0.05)}
    rules = {f"{name}/kernel": Bop(*its, name=name) for name, its in settings.items()}
    before = {name: values([model.get_layer(name).kernel])[0] for name in settings}
    optimizer = PerVariable(rules, default_optimizer=keras.optimizers.SGD(0.1))
    logs = train(model, optimizer, 3, [FlipRatio(every_n_steps=every)], run_eagerly=True)
    assert set(logs) - {"loss"} == {"flips/one", "flips/two"}
    every = every or STEPS
    for name, its in settings.items():
        signs, _ = zip(*bop_in_numpy(before[name], 3, *its), strict=True)
        looks = np.array(shares(signs, every))
        epochs = (every * np.arange(1, len(looks) + 1) - 1) // STEPS
        expected = [looks[epochs == epoch].mean() for epoch in range(3)]
        assert max(expected) > 0
        np.testing.assert_allclose(logs[f"flips/{name}"], expected)


def test_layers_of_one_name_count_together_and_a_weight_of_0_counts_as_plus_1():
    parts = [sum_of_layers("same", binary=["same"]) for _ in range(2)]
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Add()([part(inputs) for part in parts]))
    kernels = [part.get_layer("same").kernel for part in parts]
    callback, logs = FlipRatio(), {}
    callback.set_model(model)
    for start, end, share in ((0, 1, 0.0), (1, 0, 0.0), (0, -1, 0.5), (-1, 1, 0.5)):
        kernels[0].assign(np.full((3, 4), start))
        callback.on_train_begin()
        callback.on_epoch_begin(0)
        kernels[0].assign(np.full((3, 4), end))
        callback.on_epoch_end(0, logs)
        assert logs == {"flips/same": share}
