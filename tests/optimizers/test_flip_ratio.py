"""Shares of flipped weights against the algorithm in NumPy."""

import itertools

import keras
import numpy as np
from constant_gradient import BATCH, INPUTS, bop_in_numpy, make_layer_sum, train, values

from dann.optimizers import Bop, FlipRatio, PerVariable

STEPS = len(INPUTS) // BATCH


def test_share_of_flips_is_logged_by_layer():
    model = make_layer_sum("one", "two", "float", binary=["one", "two"])
    settings = {"one": (0.3, 0.02), "two": (0.2, 0.05)}
    rules = {f"{name}/kernel": Bop(*rates, name=name) for name, rates in settings.items()}
    before = {name: values([model.get_layer(name).kernel])[0] for name in settings}
    optimizer = PerVariable(rules, default_optimizer=keras.optimizers.SGD(0.1))
    logs = train(model, optimizer, 3, [FlipRatio()], run_eagerly=True)
    assert set(logs) - {"loss"} == {"flips/one", "flips/two"}
    for name, rates in settings.items():
        signs, _ = zip(*bop_in_numpy(before[name], 3, *rates), strict=True)
        expected = [np.mean(old != new) for old, new in itertools.pairwise(signs[::STEPS])]
        assert max(expected) > 0
        np.testing.assert_allclose(logs[f"flips/{name}"], expected)
