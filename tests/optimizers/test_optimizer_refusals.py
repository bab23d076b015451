import math

import keras
import pytest
from constant_gradient import make_layer_sum, train

import dann
from dann.optimizers import Bop, FlipRatio, PerVariable, faster_heads

SGD = keras.optimizers.SGD


def build_split(*arguments, **kwargs):
    PerVariable(*arguments, **kwargs).build(make_layer_sum("first").trainable_variables)


def make_faster_heads(*arguments):
    return faster_heads(dann.SourceOnly(make_layer_sum("dense"), num_classes=2), *arguments)


def train_without_binary_layers():
    train(make_layer_sum("a"), SGD(), callbacks=[FlipRatio()])


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
    "no binary layer": (train_without_binary_layers, "trainable binary layers"),
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_use_is_refused(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
