"""The certificate of methods, layers and functions, against NumPy."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from support.arrays import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.closed_forms import dann_by_hand
from support.networks import linear, linear_model, linear_parts, read_weights
from support.training_step import MODES

import dann
from dann.diagnostics import certify
from dann.gradients import reverse_gradient
from dann.layers import GradientReversal
from dann.schedules import WarmStart

IMPLEMENTATIONS = ["stop_gradient"] + ["op_override"] * (keras.backend.backend() == "tensorflow")
DATA = PAIR, LABELS
INPUTS = np.random.default_rng(5).normal(size=(16, 3)).astype("float32")


def linear_dann(cls=dann.DANN, strength=STRENGTH, **kwargs):
    model = linear_model(cls, domain_head=linear(4, 1), strength=strength, **kwargs)
    model.compile("sgd")
    return model


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_healthy_reversal_matches_numpy(mode, implementation):
    model = linear_dann(implementation=implementation)
    _, (*_, head_slope) = dann_by_hand(read_weights(model), SOURCE, LABELS, TARGET)
    certificate = certify(model, DATA, mode=mode)
    assert certificate["reversal/state"] == "working"
    assert certificate["reversal/cosine"] == pytest.approx(-1, abs=1e-6)
    assert certificate["reversal/ratio"] == pytest.approx(STRENGTH, rel=1e-5)
    assert certificate["reversal/head_norm"] == pytest.approx(np.linalg.norm(head_slope), rel=1e-5)
    assert certificate["reversal/head_error"] < 1e-6
    assert certificate["reversal/strength"] == pytest.approx(STRENGTH)
    assert certificate["reversal/calls"] == 1


@pytest.mark.parametrize("method", ["CDAN", "DALN", "FDAL", "MCD", "MDAN", "MDD", "WDGRL"])
def test_every_method_with_a_reversal_is_certified(method):
    model = linear_model(getattr(dann, method), strength=0.3)
    model.compile("sgd")
    certificate = certify(model, DATA, mode="eager")
    assert certificate["reversal/state"] == "working"
    assert certificate["reversal/ratio"] == pytest.approx(0.3, rel=1e-4)
    assert certificate.get("reversal/head_error", 0.0) < 1e-5


UNREVERSED = [(dann.SourceOnly, [dann.MCC()], "no adversary"), (dann.TargetOnly, [], "oracle")]


@pytest.mark.parametrize(("cls", "regularizers", "state"), UNREVERSED)
def test_method_without_reversal_has_its_own_state(cls, regularizers, state):
    certificate = certify(cls(**linear_parts(), regularizers=regularizers), DATA)
    assert (certificate.pop("reversal/state"), *certificate) == (state, "features/spread")


# 0 until step 500, then 1 until step 2000, then 0.
BETWEEN = keras.optimizers.schedules.PiecewiseConstantDecay([499, 1999], [0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("schedule", "iterations", "reversal_step", "state"),
    [
        (BETWEEN, 5, 5, "not started"),
        (BETWEEN, 600, 600, "working"),
        (BETWEEN, 2000, 2000, "strength 0"),
        (WarmStart(), 100, 0, "strength 0"),  # the reversal is called without `training=True`
    ],
)
def test_schedule_is_evaluated_from_the_current_step(schedule, iterations, reversal_step, state):
    model = linear_dann(strength=schedule)
    model.optimizer.iterations.assign(iterations)
    model.reversal.step.assign(reversal_step)
    assert certify(model, DATA, mode="eager")["reversal/state"] == state


class CustomReversal(dann.DANN):
    """A `DANN` that reverses by a `rule(features, reverse, head)`."""

    rule: Any = None

    def domain_scores(self, batch, reversal, training):
        def reverse(x):
            return reversal(x, training=training)

        return self.rule(batch.domain_features, reverse, self.domain_head)


def reverse_source(features, reverse, head):
    source, target = ops.split(features, 2)
    return head(ops.concatenate([reverse(source), target]))


REVERSED_TWICE = {"cosine": 1, "ratio": STRENGTH**2, "calls": 2}
REVERSED_HEAD = {"cosine": -1, "head_error": 1 + STRENGTH}


@pytest.mark.parametrize(
    ("rule", "state", "values"),
    [
        (lambda x, reverse, head: head(x), "not applied", {"cosine": 1, "ratio": 1}),
        (lambda x, reverse, head: head(reverse(reverse(x))), "applied twice", REVERSED_TWICE),
        (reverse_source, "partly reversed", {"calls": 1}),
        (lambda x, reverse, head: head(reverse(ops.stop_gradient(x))), "detached", {"ratio": 0}),
        (lambda x, reverse, head: reverse(head(x)), "discriminator reversed", REVERSED_HEAD),
    ],
)
def test_fault_in_a_method_is_named(rule, state, values):
    model = linear_dann(CustomReversal)
    model.rule = rule
    certificate = certify(model, DATA, mode="eager")
    assert certificate["reversal/state"] == state
    for name, value in values.items():
        assert certificate[f"reversal/{name}"] == pytest.approx(value, rel=1e-5), name


def test_negative_strength_is_a_wrong_sign_on_pairs():
    model = linear_dann()
    model.reversal.strength.assign(-STRENGTH)
    pairs = dann.data.pair((SOURCE, LABELS), TARGET, batch_size=4)
    assert certify(model, pairs, mode="eager")["reversal/state"] == "wrong sign"


def halve(x):
    return reverse_gradient(x, 0.5)


@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize(
    ("reversal", "inputs"),
    [
        (halve, INPUTS),
        (GradientReversal(0.5), [INPUTS, 2 * INPUTS[:, :2]]),
        (GradientReversal(0.5), {"a": INPUTS, "b": 2 * INPUTS[:, :2]}),
    ],
    ids=["function", "list", "dict"],
)
def test_function_or_layer_is_certified_in_every_mode(reversal, inputs, mode):
    certificate = certify(reversal, inputs, strength=0.5, mode=mode)
    assert certificate["reversal/state"] == "working"
    assert certificate["reversal/cosine"] == pytest.approx(-1)
    assert certificate["reversal/ratio"] == pytest.approx(0.5, rel=1e-6)


FAULTS = [(halve, 1.0, "wrong strength"), (lambda x: 1.0 * x, None, "wrong sign")]


@pytest.mark.parametrize(("function", "strength", "state"), FAULTS)
def test_fault_in_a_function_is_named(function, strength, state):
    assert certify(function, INPUTS, strength=strength)["reversal/state"] == state
