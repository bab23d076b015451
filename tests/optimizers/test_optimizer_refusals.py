import math

import keras
import pytest
from constant_gradient import sum_of_layers, train

import dann
from dann.optimizers import Bop, FlipRatio, PerVariable, faster_heads

SGD = keras.optimizers.SGD


def built(*arguments, **kwargs):
    PerVariable(*arguments, **kwargs).build(sum_of_layers("first").trainable_variables)


def half():
    variable = keras.Variable([1.0], dtype="float16")
    variable.binary = True
    return variable


def faster(*arguments):
    return faster_heads(dann.SourceOnly(sum_of_layers("dense"), num_classes=2), *arguments)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Bop(weight_decay=0.1), ValueError),
        (lambda: Bop(0.0), ValueError),
        (lambda: Bop(threshold=-1e-8), ValueError),
        (lambda: Bop().build([keras.Variable([1.0])]), ValueError),  # no layer marks it
        (lambda: Bop().build([half()]), ValueError),
        (lambda: built({"binary": Bop()}, SGD()), ValueError),  # matches nothing
        (lambda: built({"any": Bop()}, SGD(), optimizer_indices=[0, 1, 1]), ValueError),
        (lambda: faster(SGD(), 0), ValueError),
        (lambda: faster(SGD(math.sqrt)), TypeError),
        (lambda: FlipRatio(every_n_steps=0), ValueError),
        (lambda: train(sum_of_layers("a"), SGD(), callbacks=[FlipRatio()]), ValueError),
    ],
)
def test_what_does_not_fit_is_refused(make, error):
    with pytest.raises(error):
        make()
