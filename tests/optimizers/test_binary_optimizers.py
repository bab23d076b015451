"""Bop and the share of flipped weights, against the algorithms in NumPy."""

import itertools
import math

import keras
import numpy as np
import pytest
from constant_gradient import MODES, STEPS, Decay, bop_in_numpy, make_layer_sum, train, values

import dann
from dann.optimizers import Bop, FlipRatio, PerVariable, faster_heads


@pytest.mark.parametrize(
    ("rates", "mode"), [((0.3, 0.02), "eager"), ((Decay(0.4, 10, 1.0), Decay(0.05, 5, 2.0)), "xla")]
)
def test_flips_match_the_algorithm(rates, mode):
    model = make_layer_sum("kernel", binary=["kernel"], use_bias=False)
    weights = np.linspace(-0.5, 0.6, 12, dtype="float32").reshape(3, 4)
    weights[1, 2] = 0.0
    model.layers[-1].kernel.assign(weights)
    train(model, Bop(*rates), epochs=4, **MODES[mode])
    signs, averages = zip(*bop_in_numpy(weights, 4, *rates), strict=True)
    assert np.sum(np.diff(signs, axis=0) != 0) > 12  # some weights flip more than once
    np.testing.assert_array_equal(values([model.layers[-1].kernel])[0], signs[-1])
    average = values(model.optimizer._averages)[0]
    np.testing.assert_allclose(average, averages[-1], rtol=1e-5, atol=1e-8)


def test_weights_flip_only_above_the_threshold():
    weights = keras.Variable([1.0, 1.0, 1.0, -1.0, -1.0, 0.0, 0.0])
    weights.binary = True
    gradient = keras.ops.array([0.5, 0.5625, -0.75, -0.75, 0.75, 0.75, 0.0])
    Bop(learning_rate=0.5, threshold=0.25).apply([gradient], [weights])
    np.testing.assert_array_equal(values([weights])[0], [1, -1, 1, 1, -1, -1, 1])


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


SGD = keras.optimizers.SGD


def build_split(*arguments, **kwargs):
    PerVariable(*arguments, **kwargs).build(make_layer_sum("first").trainable_variables)


def make_faster_heads(*arguments):
    return faster_heads(dann.SourceOnly(make_layer_sum("dense"), num_classes=2), *arguments)


def set_threshold_after_training():
    bop = Bop()
    train(make_layer_sum("a", binary=["a"], use_bias=False), bop, epochs=1, run_eagerly=True)
    bop.threshold = 1e-6


REFUSED = {  # a function, and words of the error
    "weight decay": (lambda: Bop(weight_decay=0.1), "weight_decay=0.1"),
    "threshold": (lambda: Bop(threshold=-1e-8), "threshold=-1e-08"),
    "late threshold": (set_threshold_after_training, "before training.*new `Bop`"),
    "text": (lambda: PerVariable({"binary": "sgd"}, SGD()), "Received: {'binary': 'sgd'}"),
    "default": (lambda: PerVariable({"binary": Bop()}, "sgd"), "default_optimizer.*sgd"),
    "unmarked": (lambda: Bop().build([keras.Variable([1.0])]), "`PerVariable"),
    "unused rule": (lambda: build_split({"binary": Bop()}, SGD()), "'binary', which matches none"),
    "factor": (lambda: make_faster_heads(SGD(), 0), "factor=0"),
    "function": (lambda: make_faster_heads(SGD(math.sqrt)), "Keras schedule"),
    "no binary": (lambda: train(make_layer_sum("a"), SGD(), 1, [FlipRatio()]), "le binary layers"),
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_use_is_refused(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
