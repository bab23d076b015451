"""The commonest mistakes with a reversal, ten lines each, and models in which it is right."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import dann
from dann.diagnostics import certify
from dann.diagnostics.passes import in_mode
from dann.gradients import reverse_gradient
from dann.layers import GradientReversal

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
PAIR = {"source": X, "target": X + 1}, np.arange(8) % 4


class Stop(layers.Layer):
    def call(self, inputs):
        return ops.stop_gradient(inputs)


def dense(units=6, **settings):
    return layers.Dense(units, "tanh", **settings)


def network(turn, before=dense, head=layers.Dense, shared=True):
    """A label head on features, and a domain head behind `turn` of them."""
    inputs = keras.Input((3,))
    features = before()(inputs)
    domain = head(1)(turn(features if shared else inputs))
    return keras.Model(inputs, [layers.Dense(4)(features), domain])


def chain(*parts):
    def apply(x):
        for part in parts:
            x = part(x)
        return x

    return apply


def on_both_heads(*widths):
    inputs = keras.Input((3,))
    turned = GradientReversal()(dense()(inputs))
    return keras.Model(inputs, [layers.Dense(width)(turned) for width in widths])


def each_head_its_own(turn=None):
    inputs = keras.Input((3,))
    features = dense()(inputs)
    turned = [(turn or GradientReversal())(features) for _ in range(2)]
    return keras.Model(inputs, [layers.Dense(4)(turned[0]), layers.Dense(1)(turned[1])])


def one_layer_twice():
    layer = GradientReversal()
    return network(chain(layer, layer))


def method(**parts):
    keras.utils.set_random_seed(0)
    backbone = parts.pop("backbone", None) or keras.Sequential([keras.Input((3,)), dense()])
    model = dann.DANN(backbone, num_classes=4, **parts)
    model.compile("sgd")
    return model


class Subclassed(keras.Model):
    """A custom layer is like it."""

    def __init__(self, *parts, last=(), shared=True, label=()):
        super().__init__()
        self.backbone, self.shared = dense(), shared
        self.head = keras.Sequential([*label, layers.Dense(4)])
        self.domain_head = keras.Sequential([*parts, layers.Dense(1), *last])

    def call(self, inputs):
        features = self.backbone(inputs)
        domain = self.domain_head(features if self.shared else inputs)
        label = self.head(features)
        return {"label": label, "class": ops.argmax(label, axis=1), "domain": domain}


def nested(*parts, last=()):
    return network(lambda x: x, head=lambda n: head_with(*parts, last=last))


def head_with(*parts, last=()):
    return keras.Sequential([keras.Input((6,)), *parts, layers.Dense(1), *last])


def ending_in_one():
    return keras.Sequential([keras.Input((3,)), dense(), GradientReversal()])


FAULTS = {
    "strength computed and not passed": (lambda: network(GradientReversal()), "wrong strength"),
    "strength 0": (lambda: network(GradientReversal(0.0)), "strength 0"),
    "sign turned twice": (
        lambda: network(chain(GradientReversal(), GradientReversal())),
        "applied twice",
    ),
    "before a head that holds another": (
        lambda: network(GradientReversal(), head=lambda n: head_with(GradientReversal())),
        "applied twice",
    ),
    "one layer twice in a row": (one_layer_twice, "applied twice"),
    "reversed, then detached": (lambda: network(chain(GradientReversal(), Stop())), "detached"),
    "detached, then reversed": (lambda: network(chain(Stop(), GradientReversal())), "detached"),
    "before both heads": (lambda: on_both_heads(4, 1), "every output"),
    "before heads of equal widths": (lambda: on_both_heads(4, 4), "every output"),
    "a reversal of each head": (each_head_its_own, "every output"),
    "one reversal, called for each head": (
        lambda: each_head_its_own(GradientReversal()),
        "every output",
    ),
    "on a subclass's inputs": (lambda: Subclassed(GradientReversal(), shared=False), "detached"),
    "at the end of the backbone": (lambda: network(lambda x: x, ending_in_one), "every output"),
    "at the end of the backbone, and before the head": (
        lambda: network(GradientReversal(), ending_in_one),
        "applied twice",
    ),
    "within a subclass's discriminator": (
        lambda: Subclassed(dense(), GradientReversal()),
        "within the discriminator",
    ),
    "behind a subclass's discriminator": (
        lambda: Subclassed(last=[GradientReversal()]),
        "behind the discriminator",
    ),
    "behind a nested discriminator": (
        lambda: nested(dense(), last=[GradientReversal()]),
        "behind the discriminator",
    ),
    "behind a chain of models": (
        lambda: keras.Sequential(
            [keras.Input((3,)), dense(), head_with(last=[GradientReversal()])]
        ),
        "behind the discriminator",
    ),
    "on the inputs": (lambda: network(GradientReversal(), shared=False), "backbone frozen"),
    "frozen backbone": (
        lambda: network(GradientReversal(), lambda: dense(trainable=False)),
        "backbone frozen",
    ),
    "a critic that never steps": (
        lambda: network(GradientReversal(), head=lambda n: layers.Dense(n, trainable=False)),
        "discriminator frozen",
    ),
    "within the discriminator": (
        lambda: network(chain(dense(), GradientReversal())),
        "within the discriminator",
    ),
    "behind the discriminator": (
        lambda: network(
            chain(layers.Dense(1), GradientReversal()), head=lambda n: layers.Flatten()
        ),
        "behind the discriminator",
    ),
    "in a method's discriminator": (
        lambda: method(domain_head=head_with(dense(), GradientReversal())),
        "applied twice",
    ),
    "at the end of a method's backbone": (
        lambda: method(backbone=ending_in_one()),
        "applied twice",
    ),
    "a detached discriminator": (lambda: method(domain_head=head_with(Stop())), "no gradient"),
    "twice in a nested model": (
        lambda: nested(GradientReversal(), GradientReversal()),
        "applied twice",
    ),
    "strength 0 in a subclass": (lambda: Subclassed(GradientReversal(0.0)), "strength 0"),
    "detached in a nested model": (lambda: nested(Stop(), GradientReversal()), "detached"),
    "strength not passed in a subclass": (lambda: Subclassed(GradientReversal()), "wrong strength"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_named(fault):
    build, state = FAULTS[fault]
    model = build()
    data = PAIR if isinstance(model, dann.adaptation.AdversarialModel) else X
    strength = 0.3 if state == "wrong strength" else None
    assert certify(model, data, strength=strength, mode="eager")["reversal/state"] == state


def test_a_strength_that_tracing_froze_is_seen_when_compiled():
    now = {"strength": 0.25}
    frozen = in_mode(lambda x: reverse_gradient(x, now["strength"]), "graph")
    frozen(ops.convert_to_tensor(X))
    now["strength"] = 1.0
    found = certify(frozen, X, strength=1.0, mode="eager")
    assert found["reversal/state"] == "wrong strength"
    assert found["reversal/ratio"] == pytest.approx(0.25)


def two_inputs(joined=False):
    inputs = [keras.Input((3,)), keras.Input((3,))]
    backbone, turn, head = dense(), GradientReversal(0.3), layers.Dense(1)
    first, second = map(backbone, inputs)
    domains = [head(turn(first)), head(turn(second))]
    if joined:
        domains = [layers.Concatenate(axis=0)(domains)]
    return keras.Model(inputs, [layers.Dense(4)(first), *domains])


def two_reversals(turn=lambda layer: layer):
    inputs = keras.Input((3,))
    features = dense()(inputs)
    turned = [turn(GradientReversal(n / 10)) for n in (1, 5)]
    domain, speaker = (layers.Dense(2)(one(features)) for one in turned)
    return keras.Model(inputs, [layers.Dense(4)(features), domain, speaker])


RIGHT = {
    **{
        f"features by {name}": lambda make=make: network(GradientReversal(0.5), lambda: make)
        for name, make in {
            "relu": chain(layers.Dense(6), layers.ReLU()),
            "batch normalization": chain(layers.Dense(6), layers.BatchNormalization()),
            "dropout": chain(dense(), layers.Dropout(0.5)),
            "reshape": chain(layers.Reshape((3, 1)), layers.Conv1D(4, 2), layers.Flatten()),
            "two layers": chain(dense(), dense()),
            "gru": chain(layers.Reshape((3, 1)), layers.GRU(4)),
            "attention": chain(
                layers.Reshape((3, 1)), layers.Dense(4), lambda x: layers.Attention()([x, x])
            ),
        }.items()
    },
    **{
        f"reversal then {name}": lambda parts=parts: network(
            chain(GradientReversal(0.5), *(part() for part in parts))
        )
        for name, parts in {
            "a hidden layer": [dense],
            "dropout": [dense, lambda: layers.Dropout(0.3)],
            "batch normalization": [layers.BatchNormalization],
            "flatten": [layers.Flatten],
            "relu": [lambda: layers.Dense(8, "relu")],
            "pooling": [lambda: layers.Reshape((6, 1)), layers.GlobalAveragePooling1D],
        }.items()
    },
    "pooled before the reversal": lambda: network(chain(layers.Flatten(), GradientReversal(0.5))),
    "two inputs, one reversal": two_inputs,
    "two inputs, one output": lambda: two_inputs(joined=True),
    "two nuisances": two_reversals,
    "two nuisances of nested models": lambda: two_reversals(
        lambda layer: keras.Sequential([keras.Input((6,)), layer])
    ),
    "in a nested model": lambda: nested(GradientReversal(0.5), dense()),
    "in a model in a nested model": lambda: nested(head_with(GradientReversal(0.5))),
    "in a subclassed model": lambda: Subclassed(GradientReversal(0.5), dense()),
    "labels on detached features": lambda: Subclassed(GradientReversal(0.5), label=[Stop()]),
    "a chain of models": lambda: keras.Sequential(
        [keras.Input((3,)), dense(), head_with(GradientReversal(0.5), dense())]
    ),
    "the domain alone": lambda: keras.Sequential(
        [keras.Input((3,)), dense(), GradientReversal(0.5), layers.Dense(1)]
    ),
    "a head of several logits": lambda: network(GradientReversal(0.5), head=lambda n: dense(4)),
    "strength of 10": lambda: network(GradientReversal(10.0)),
    "by stop_gradient": lambda: network(GradientReversal(0.5, implementation="stop_gradient")),
    "method with a deep head": lambda: method(domain_head=head_with(dense(), dense())),
    "method in two passes": lambda: method(joint_forward=False),
    "method with a regularizer": lambda: method(regularizers=[dann.MCC()]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm_on_a_right_model(name):
    model = RIGHT[name]()
    data = PAIR if isinstance(model, dann.adaptation.AdversarialModel) else X
    if len(getattr(model, "inputs", None) or [0]) == 2:
        data = [X, X]
    assert certify(model, data, mode="eager")["reversal/state"] == "alive"
