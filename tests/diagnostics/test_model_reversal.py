"""Common mistakes with a reversal in a Keras model, and models without a mistake."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from support.training_step import MODES

import dann
from dann.diagnostics import certify, check
from dann.gradients import reverse_gradient
from dann.layers import GradientReversal
from dann.schedules import GaninSchedule

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
PAIR = {"source": X, "target": X + 1}, np.arange(8) % 4


class Stop(layers.Layer):
    def call(self, inputs):
        return ops.stop_gradient(inputs)


class ForeignReversal(layers.Layer):
    """A reversal layer of another package."""

    def call(self, inputs):
        return reverse_gradient(inputs, 0.7)


def dense(**settings):
    return layers.Dense(6, "tanh", **settings)


def two_heads(*reversals, before=dense, head=layers.Dense, on_inputs=False):
    """A label head on features, and a domain head behind the layers `reversals`."""
    inputs = keras.Input((3,))
    features = before()(inputs)
    domain = inputs if on_inputs else features
    for layer in reversals:
        domain = layer(domain)
    return keras.Model(inputs, [layers.Dense(4)(features), head(1)(domain)])


def heads(*reversals):
    """A head behind each of the reversals, which all get the same features."""
    inputs = keras.Input((3,))
    features = dense()(inputs)
    return keras.Model(inputs, [layers.Dense(2)(reverse(features)) for reverse in reversals])


def method(*parts):
    model = dann.DANN(keras.Sequential([keras.Input((3,)), *parts]), num_classes=4)
    model.compile("sgd")
    return model


class Subclassed(keras.Model):
    """A model that Keras sees only as a `call` method."""

    def __init__(self, *parts, last=(), label=()):
        super().__init__()
        self.backbone = dense()
        self.head = keras.Sequential([*label, layers.Dense(4)])
        self.domain_head = keras.Sequential([*parts, layers.Dense(1), *last])

    def call(self, inputs):
        features = self.backbone(inputs)
        label, domain = self.head(features), self.domain_head(features)
        return {"label": label, "class": ops.argmax(label, axis=1), "domain": domain}


def nested_head(*parts):
    return lambda units: keras.Sequential([keras.Input((6,)), *parts, layers.Dense(units)])


def normalized_dense():
    return lambda inputs: layers.BatchNormalization()(dense()(inputs))


def saturated_dense(units):
    return layers.Dense(units, "sigmoid", bias_initializer=keras.initializers.Constant(200.0))


def with_nan():
    model = two_heads(GradientReversal())
    model.set_weights([np.full(weight.shape, np.nan) for weight in model.get_weights()])
    return model


def foreign():
    return ForeignReversal(name="foreign")


def embedding():
    inputs = keras.Input((3,), dtype="int32")
    features = layers.Flatten()(layers.Embedding(5, 3, name="foreign")(inputs))
    return keras.Model(inputs, layers.Dense(1)(features))


MODELS = {  # The state of the reversal, and a comment. "foreign" certifies the layer of this name.
    "wrong strength": lambda: two_heads(GradientReversal()),
    "strength 0": lambda: two_heads(GradientReversal(0.0)),
    "not started": lambda: two_heads(GradientReversal(GaninSchedule(100))),
    "applied twice, one layer": lambda: two_heads(*[GradientReversal()] * 2),
    "applied twice, in the head": lambda: two_heads(
        GradientReversal(), head=nested_head(GradientReversal())
    ),
    "applied twice, in the backbone": lambda: method(dense(), GradientReversal()),
    "applied twice, foreign": lambda: two_heads(GradientReversal(), foreign()),
    "detached, behind": lambda: two_heads(GradientReversal(), Stop()),
    "detached, before foreign": lambda: two_heads(Stop(), foreign()),
    "detached, on the inputs": lambda: two_heads(GradientReversal(), on_inputs=True),
    "backbone frozen": lambda: two_heads(GradientReversal(), before=lambda: dense(trainable=False)),
    "backbone frozen, method": lambda: method(dense(trainable=False)),
    "every output": lambda: heads(GradientReversal(), GradientReversal()),
    "behind the discriminator": lambda: Subclassed(last=[GradientReversal()]),
    "within the discriminator": lambda: two_heads(dense(), GradientReversal()),
    "no gradient": lambda: two_heads(GradientReversal(), head=saturated_dense),
    "not finite": with_nan,
    "not found": two_heads,
    "wrong sign, foreign": lambda: two_heads(layers.Identity(name="foreign")),
    "unknown, foreign": embedding,
    "working, batch normalization": lambda: two_heads(GradientReversal(), before=normalized_dense),
    "working, two nuisances": lambda: heads(layers.Identity(), *map(GradientReversal, (0.1, 0.5))),
    "working, nested": lambda: two_heads(head=nested_head(nested_head(GradientReversal())(1))),
    "working, subclassed": lambda: Subclassed(GradientReversal(0.5), dense()),
    "working, detached labels": lambda: Subclassed(GradientReversal(0.5), label=[Stop()]),
}


@pytest.mark.parametrize("case", MODELS)
def test_state_of_the_reversal_is_named(case):
    model, (state, _, comment) = MODELS[case](), case.partition(", ")
    data = PAIR if isinstance(model, dann.adaptation.AdversarialModel) else X
    strength = 0.3 if state == "wrong strength" else None
    layer = "foreign" if "foreign" in comment else None
    certificate = certify(model, data, layer=layer, strength=strength, mode="eager")
    assert certificate["reversal/state"] == state


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: two_heads(GradientReversal(0.7)), None),
        # Another reversal counts only if the gradient passes both.
        (lambda: heads(layers.Identity(), foreign(), GradientReversal(0.5)), "foreign"),
    ],
)
def test_strength_in_a_model_is_measured_in_every_mode(build, name, mode):
    certificate = certify(build(), X, layer=name, mode=mode)
    assert certificate["reversal/state"] == "working"
    assert certificate["reversal/cosine"] == pytest.approx(-1, abs=1e-6)
    assert certificate["reversal/ratio"] == pytest.approx(0.7, rel=1e-5)


def test_check_describes_reversed_and_other_outputs():
    """The description reveals exchanged heads, and several nuisances are no fault."""
    inputs = keras.Input((3,))
    features = dense()(inputs)
    reversed_features = foreign()(features)
    domain, label = (layers.Dense(n, name=f"head_{n}") for n in (1, 4))
    swapped = keras.Model(inputs, [domain(features), label(reversed_features)])
    verdict = check(swapped, X, mode="eager", layer="foreign").verdict
    assert verdict.name == "reversal working"
    reason = "The reversal works. Reversed outputs: head_4 (4). Other outputs: head_1 (1)."
    assert reason in verdict.reasons
    nuisances = keras.Model(inputs, [domain(reversed_features), label(reversed_features)])
    verdict = check(nuisances, X, mode="eager", layer="foreign").verdict
    assert verdict.name == "all outputs reversed"
    assert "Reversed outputs: head_1 (1), head_4 (4). Other outputs: none." in verdict.reasons[0]
