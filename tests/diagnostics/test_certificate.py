"""The certificate of a reversal against NumPy, in every mode, on methods, layers and models."""

import keras
import numpy as np
import planted
import pytest
from keras import ops
from support.formulas import dann_by_hand, linear_model
from support.networks import linear, linear_parts, read_weights
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.training_step import MODES

import dann
from dann.diagnostics import certify, check
from dann.gradients import binary_sign, reverse_gradient
from dann.layers import GradientReversal
from dann.schedules import Constant, GaninSchedule, StrengthSchedule, WarmStart

IMPLEMENTATIONS = ["stop_gradient"] + ["op_override"] * (keras.backend.backend() == "tensorflow")
DATA = PAIR, LABELS
METHODS = ["CDAN", "DALN", "FDAL", "MADA", "MCD", "MDAN", "MDD", "PADA", "WDGRL"]
INPUTS = np.random.default_rng(5).normal(size=(16, 3)).astype("float32")


def linear_dann(cls=dann.DANN, strength=STRENGTH, **kwargs):
    model = linear_model(cls, domain_head=linear(4, 1), strength=strength, **kwargs)
    model.compile("sgd")
    return model


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_reversal_is_certified_to_the_strength_as_numpy_has_it(mode, implementation):
    model = linear_dann(implementation=implementation)
    _, (*_, of_head) = dann_by_hand(read_weights(model), SOURCE, LABELS, TARGET)
    found = certify(model, DATA, mode=mode)
    assert found["reversal/state"] == "alive"
    assert found["reversal/cosine"] == pytest.approx(-1, abs=1e-6)
    assert found["reversal/ratio"] == pytest.approx(STRENGTH, rel=1e-5)
    assert found["reversal/head_norm"] == pytest.approx(np.linalg.norm(of_head), rel=1e-5)
    assert found["reversal/head_error"] < 1e-6
    assert found["reversal/strength"] == pytest.approx(STRENGTH)
    assert found["reversal/calls"] == 1


def test_a_reloaded_model_gets_the_same_certificate(reloaded):
    model = linear_dann(strength=GaninSchedule(100))
    model.reversal.step.assign(30)
    strength = 2 / (1 + np.exp(-10 * 0.3)) - 1
    for each in (model, reloaded(model)):
        found = certify(each, DATA)
        assert found["reversal/state"] == "alive"
        assert found["reversal/ratio"] == pytest.approx(strength, rel=1e-5)
        assert found["reversal/strength"] == pytest.approx(strength, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_that_reverses_is_certified(method):
    model = linear_model(getattr(dann, method), strength=0.3)
    model.compile("sgd")
    found = certify(model, DATA, mode="eager")
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.3, rel=1e-4)
    assert found.get("reversal/head_error", 0.0) < 1e-5


def test_a_method_without_a_reversal_has_nothing_to_certify():
    found = certify(dann.SourceOnly(**linear_parts()), DATA)
    assert (found.pop("reversal/state"), *found) == ("none", "features/spread")


class Between(StrengthSchedule):
    """1 from step 500 until step 2000, and 0 otherwise."""

    def __call__(self, step):
        step = ops.cast(step, "float32")
        return ops.cast((step >= 500) & (step < 2000), "float32")

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    ("schedule", "trained", "counted", "state"),
    [
        (GaninSchedule(100), 0, 0, "not started"),
        (Constant(0.0), 0, 0, "strength 0"),
        (Between(), 5, 5, "not started"),
        (Between(), 600, 600, "alive"),
        (Between(), 2000, 2000, "strength 0"),
        (WarmStart(), 100, 0, "strength 0"),  # as of a reversal that gets no `training=True`
    ],
)
def test_a_schedule_is_judged_from_the_present_step_on(schedule, trained, counted, state):
    model = linear_dann(strength=schedule)
    model.optimizer.iterations.assign(trained)
    model.reversal.step.assign(counted)
    assert certify(model, DATA, mode="eager")["reversal/state"] == state


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_methods_and_layers_are_certified_in_half_precision(policy):
    keras.config.set_dtype_policy(policy)
    dtype = policy.removeprefix("mixed_")
    layer = certify(GradientReversal(STRENGTH, dtype=dtype), ops.cast(INPUTS, dtype))
    for found in (certify(linear_dann(), DATA), layer):
        assert found["reversal/state"] == "alive"
        assert found["reversal/ratio"] == pytest.approx(STRENGTH, rel=1e-2)


def test_a_double_reversal_shows_the_square_of_the_strength():
    found = certify(linear_dann(planted.Twice), DATA, mode="eager")
    assert found["reversal/state"] == "applied twice"
    assert found["reversal/calls"] == 2
    assert found["reversal/cosine"] == pytest.approx(1)
    assert found["reversal/ratio"] == pytest.approx(STRENGTH**2, rel=1e-5)


def test_a_reversal_behind_the_discriminator_reverses_it_too():
    found = certify(linear_dann(planted.BehindHead), DATA, mode="eager")
    assert found["reversal/cosine"] == pytest.approx(-1)
    assert found["reversal/head_error"] == pytest.approx(1 + STRENGTH, rel=1e-5)
    assert found["reversal/state"] == "discriminator reversed"


# Somebody's own reversals, as a function or a layer.


def halved(x):
    return reverse_gradient(x, 0.5)


@pytest.mark.parametrize("mode", [None, *MODES])
def test_a_function_is_certified_in_every_mode(mode):
    found = certify(halved, INPUTS, strength=0.5, mode=mode)
    assert found["reversal/state"] == "alive"
    assert found["reversal/cosine"] == pytest.approx(-1)
    assert found["reversal/ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("function", "strength", "state"),
    [
        (halved, 1.0, "wrong strength"),
        (halved, None, "alive"),
        (lambda x: 1.0 * x, None, "wrong sign"),
        (ops.stop_gradient, 1.0, "detached"),
        (ops.stop_gradient, None, "strength 0"),
        (lambda x: -x, None, "changes values"),
        (binary_sign, None, "changes values"),
        (lambda x: halved(halved(x)), None, "wrong sign"),
    ],
)
def test_a_fault_in_a_function_is_named(function, strength, state):
    assert certify(function, INPUTS, strength=strength)["reversal/state"] == state


@pytest.mark.tensorflow
def test_a_naive_graph_override_does_not_reverse():
    import tensorflow as tf

    def naive(x):
        with tf.compat.v1.get_default_graph().gradient_override_map({"Identity": planted.NEGATIVE}):
            return tf.identity(x)

    assert certify(naive, INPUTS, mode="graph")["reversal/state"] == "wrong sign"


def two_heads(turn):
    """A functional model of two heads, one behind somebody's reversal."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    features = keras.layers.Dense(6, activation="tanh")(inputs)
    domain = keras.layers.Dense(1)(keras.layers.Dense(8, activation="tanh")(turn(features)))
    return keras.Model(inputs, [keras.layers.Dense(4)(features), domain])


class Reverse(keras.layers.Layer):
    """Anyone's reversal."""

    def call(self, inputs):
        return reverse_gradient(inputs, 0.7)


@pytest.mark.parametrize("mode", MODES)
def test_a_named_layer_of_a_functional_model_is_certified_between_its_sides(mode):
    model = two_heads(Reverse(name="mine"))
    found = certify(model, INPUTS, layer="mine", mode=mode)
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.7, rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_that_reverses_two_tensors_is_certified_alone_and_in_a_model(mode):
    reversal, inputs = GradientReversal(0.3), keras.Input((3,))
    both = keras.layers.Dense(4)(inputs), keras.layers.Dense(2)(inputs)
    reversed_ = keras.layers.Dense(1)(keras.layers.Concatenate()(reversal(list(both))))
    label = keras.layers.Dense(3)(keras.layers.Concatenate()(both))
    model = keras.Model(inputs, [label, reversed_])
    for found in (
        certify(reversal, [INPUTS, 2 * INPUTS[:, :2]], mode=mode),
        certify(model, INPUTS, mode=mode),
    ):
        assert (found["reversal/state"], found["reversal/calls"]) == ("alive", 1)
        assert found["reversal/ratio"] == pytest.approx(0.3, rel=1e-6)


@pytest.mark.parametrize("steps", [0, 1, 30])
def test_a_layer_under_a_schedule_is_certified_at_the_strength_of_its_step(steps):
    reversal = GradientReversal(GaninSchedule(100))
    reversal.step.assign(steps)
    found = certify(reversal, INPUTS)
    assert found["reversal/state"] == ("alive" if steps else "not started")
    assert found["reversal/ratio"] == pytest.approx(2 / (1 + np.exp(-steps / 10)) - 1, rel=1e-5)
    of_model = certify(two_heads(GradientReversal(GaninSchedule(100))), INPUTS, mode="eager")
    assert of_model["reversal/state"] == "not started"


def embedding():
    inputs = keras.Input((3,), dtype="int32")
    features = keras.layers.Flatten()(keras.layers.Embedding(5, 3, name="mine")(inputs))
    return keras.Model(inputs, keras.layers.Dense(1)(features))


@pytest.mark.parametrize(
    ("model", "layer", "state"),
    [
        (lambda: two_heads(GradientReversal(0.5)), None, "alive"),
        (lambda: two_heads(keras.layers.Identity(name="mine")), "mine", "wrong sign"),
        (lambda: two_heads(Reverse(name="mine")), None, "unknown"),
        (embedding, "mine", "unknown"),
        (lambda: keras.Sequential([keras.layers.Embedding(5, 3)]), None, "unknown"),
    ],
)
def test_the_reversal_of_a_functional_model_is_found(model, layer, state):
    assert certify(model(), INPUTS, layer=layer, mode="eager")["reversal/state"] == state


def test_any_keras_model_is_checked_with_the_name_of_its_reversal():
    found = check(two_heads(Reverse(name="mine")), INPUTS, mode="eager", layer="mine")
    assert found.verdict.name == "reversal alive"
    assert found.verdict.reasons[1].startswith("The reversal is alive. Outputs that come from it: ")


def test_outputs_that_come_from_the_reversal_are_named():
    """So that heads that have changed places are seen, and nuisances alone are no fault."""
    inputs = keras.Input((3,))
    features = keras.layers.Dense(6)(inputs)
    turned = GradientReversal()(features)
    domain, label = (keras.layers.Dense(n, name=f"of_{n}") for n in (1, 4))
    swapped = check(keras.Model(inputs, [domain(features), label(turned)]), INPUTS, mode="eager")
    told = "Outputs that come from it: of_4 (4); that do not: of_1 (1)."
    assert any(reason.endswith(told) for reason in swapped.verdict.reasons)
    nuisances = check(keras.Model(inputs, [domain(turned), label(turned)]), INPUTS, mode="eager")
    assert nuisances.verdict.name == "reversal everywhere"
    assert "of_1 (1), of_4 (4); that do not: none" in nuisances.verdict.reasons[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: certify(halved, INPUTS[:0]),
        lambda: certify(halved, INPUTS, mode="fast"),
        lambda: certify(two_heads(Reverse()), INPUTS, layer="nobody"),
        lambda: check(linear_dann(), DATA, mode="fast"),
        lambda: check(linear_dann(), DATA, layer="reversed"),
        lambda: check(dann.DANN(**linear_parts()), DATA),  # not compiled
    ],
)
def test_mistakes_in_the_arguments_are_refused(call):
    """They must not end as "undetermined"."""
    with pytest.raises(ValueError, match="."):
        call()
