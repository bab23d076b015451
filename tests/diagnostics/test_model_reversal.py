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


def dense(units=6, **settings):
    return layers.Dense(units, "tanh", **settings)


def two_heads(*reversals, before=dense, head=layers.Dense, on_inputs=False):
    """A label head on features, and a domain head behind the layers `reversals`."""
    inputs = keras.Input((3,))
    features = before()(inputs)
    domain = inputs if on_inputs else features
    for layer in reversals:
        domain = layer(domain)
    return keras.Model(inputs, [layers.Dense(4)(features), head(1)(domain)])


def chain(*parts):
    def apply(x):
        for part in parts:
            x = part(x)
        return x

    return apply


def every_head_reversed(*reversals):
    inputs = keras.Input((3,))
    features = dense()(inputs)
    first, second = (reversal(features) for reversal in reversals)
    return keras.Model(inputs, [layers.Dense(4)(first), layers.Dense(1)(second)])


def method(**parts):
    backbone = parts.pop("backbone", None) or keras.Sequential([keras.Input((3,)), dense()])
    model = dann.DANN(backbone, num_classes=4, **parts)
    model.compile("sgd")
    return model


class Subclassed(keras.Model):
    """A model that Keras sees only as a `call` method."""

    def __init__(self, *parts, last=(), on_inputs=False, label=()):
        super().__init__()
        self.backbone, self.on_inputs = dense(), on_inputs
        self.head = keras.Sequential([*label, layers.Dense(4)])
        self.domain_head = keras.Sequential([*parts, layers.Dense(1), *last])

    def call(self, inputs):
        features = self.backbone(inputs)
        domain = self.domain_head(inputs if self.on_inputs else features)
        label = self.head(features)
        return {"label": label, "class": ops.argmax(label, axis=1), "domain": domain}


def nested_head(*parts, last=()):
    return keras.Sequential([keras.Input((6,)), *parts, layers.Dense(1), *last])


def nested(*parts, last=()):
    return two_heads(head=lambda units: nested_head(*parts, last=last))


def reversed_backbone():
    return keras.Sequential([keras.Input((3,)), dense(), GradientReversal()])


def reversed_head(units=1):
    return nested_head(GradientReversal())


def frozen_dense(units=6):
    return dense(units, trainable=False)


def saturated_dense(units):
    return layers.Dense(units, "sigmoid", bias_initializer=keras.initializers.Constant(200.0))


def with_nan(model):
    model.set_weights([np.full(weight.shape, np.nan) for weight in model.get_weights()])
    return model


def same_layer_twice():
    layer = GradientReversal()
    return two_heads(layer, layer)


FAULTS = {  # by the state of the reversal
    "wrong strength": {"not passed": lambda: two_heads(GradientReversal())},
    "strength 0": {"constant": lambda: two_heads(GradientReversal(0.0))},
    "not started": {"schedule": lambda: two_heads(GradientReversal(GaninSchedule(100)))},
    "applied twice": {
        "one layer twice": same_layer_twice,
        "in the head, too": lambda: two_heads(GradientReversal(), head=reversed_head),
        "in a method's backbone": lambda: method(backbone=reversed_backbone()),
    },
    "detached": {
        "reversed first": lambda: two_heads(GradientReversal(), Stop()),
        "on the inputs": lambda: two_heads(GradientReversal(), on_inputs=True),
    },
    "backbone frozen": {
        "frozen backbone": lambda: two_heads(GradientReversal(), before=frozen_dense),
        "method": lambda: method(backbone=keras.Sequential([keras.Input((3,)), frozen_dense()])),
    },
    "every output": {
        "one per head": lambda: every_head_reversed(GradientReversal(), GradientReversal())
    },
    "behind the discriminator": {"last layer": lambda: Subclassed(last=[GradientReversal()])},
    "within the discriminator": {"functional": lambda: two_heads(dense(), GradientReversal())},
    "no gradient": {
        "saturated sigmoid": lambda: two_heads(GradientReversal(), head=saturated_dense)
    },
    "not finite": {"weights of NaN": lambda: with_nan(two_heads(GradientReversal()))},
    "not found": {"no reversal": two_heads},
}


@pytest.mark.parametrize(
    ("state", "name"), [(state, name) for state, builds in FAULTS.items() for name in builds]
)
def test_mistake_is_named(state, name):
    model = FAULTS[state][name]()
    data = PAIR if isinstance(model, dann.adaptation.AdversarialModel) else X
    strength = 0.3 if state == "wrong strength" else None
    assert certify(model, data, strength=strength, mode="eager")["reversal/state"] == state


def two_nuisances():
    inputs = keras.Input((3,))
    features = dense()(inputs)
    domain, speaker = (layers.Dense(2)(GradientReversal(s)(features)) for s in (0.1, 0.5))
    return keras.Model(inputs, [layers.Dense(4)(features), domain, speaker])


def features_by(*parts):
    return lambda: two_heads(GradientReversal(0.5), before=lambda: chain(*(p() for p in parts)))


CORRECT = {
    "batch normalization": features_by(dense, layers.BatchNormalization),
    "two nuisances": two_nuisances,
    "in a nested model": lambda: nested(nested_head(GradientReversal(0.5))),
    "in a subclassed model": lambda: Subclassed(GradientReversal(0.5), dense()),
    "labels on detached features": lambda: Subclassed(GradientReversal(0.5), label=[Stop()]),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_model_raises_no_alarm(name):
    model = CORRECT[name]()
    data = PAIR if isinstance(model, dann.adaptation.AdversarialModel) else X
    assert certify(model, data, mode="eager")["reversal/state"] == "working"


@pytest.mark.parametrize("mode", MODES)
def test_foreign_reversal_beside_another_works(mode):
    """Another reversal counts only if the gradient passes both."""
    inputs = keras.Input((3,))
    features = dense()(inputs)
    domain = layers.Dense(1)(foreign()(features))
    speaker = layers.Dense(2)(GradientReversal(0.5)(features))
    model = keras.Model(inputs, [layers.Dense(4)(features), domain, speaker])
    certificate = certify(model, X, layer="foreign", mode=mode)
    assert certificate["reversal/state"] == "working"
    assert certificate["reversal/ratio"] == pytest.approx(0.7, rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [None, "foreign"])
def test_strength_in_a_model_is_measured_in_every_mode(name, mode):
    model = two_heads(ForeignReversal(name="foreign") if name else GradientReversal(0.7))
    certificate = certify(model, X, layer=name, mode=mode)
    assert certificate["reversal/state"] == "working"
    assert certificate["reversal/cosine"] == pytest.approx(-1, abs=1e-6)
    assert certificate["reversal/ratio"] == pytest.approx(0.7, rel=1e-5)


def embedding():
    inputs = keras.Input((3,), dtype="int32")
    features = layers.Flatten()(layers.Embedding(5, 3, name="foreign")(inputs))
    return keras.Model(inputs, layers.Dense(1)(features))


def foreign(**settings):
    return ForeignReversal(name="foreign", **settings)


@pytest.mark.parametrize(
    ("build", "state"),
    [
        (lambda: two_heads(layers.Identity(name="foreign")), "wrong sign"),
        (lambda: two_heads(Stop(), foreign()), "detached"),
        (lambda: two_heads(GradientReversal(), foreign()), "applied twice"),
        (embedding, "unknown"),
    ],
)
def test_fault_of_a_foreign_layer_is_named(build, state):
    assert certify(build(), X, layer="foreign", mode="eager")["reversal/state"] == state


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
