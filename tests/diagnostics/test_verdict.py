"""A planted fault gets its name; a healthy model is called healthy."""

import keras
import numpy as np
import planted
import pytest

import dann
from dann.diagnostics import (
    check,
    discriminator_vs_probe,
    feature_distance,
    label_loss_baselines,
    verdict,
)
from dann.diagnostics.minmax_spectrum import growth, stability


def said_of(model, mode=None, seed=0):
    found = check(model, planted.batch(seed), mode=mode)
    return found.verdict.name, found.measurements.get("reversal/state"), found.verdict.reasons


DEAD_REVERSALS = {
    "forgotten": lambda: planted.dann(planted.Forgotten),
    "applied twice": lambda: planted.dann(planted.Twice),
    "partly reversed": lambda: planted.dann(planted.OneDomain),
    "cut": lambda: planted.dann(planted.Cut),
    "discriminator reversed": lambda: planted.dann(planted.BehindHead),
    "wrong sign": planted.wrong_sign,
    "strength 0": lambda: planted.dann(strength=0.0),
}


@pytest.mark.parametrize("state", DEAD_REVERSALS)
def test_a_reversal_that_does_not_reverse_is_dead_and_says_why(state):
    assert said_of(DEAD_REVERSALS[state](), "eager")[:2] == ("reversal dead", state)


def keras_softmax():
    """Keras must not look behind it for the loss, as it did where the output reached it whole."""
    return keras.layers.Lambda(keras.activations.softmax, output_shape=(1,))


@pytest.mark.filterwarnings("ignore:(?s).*a softmax over axis")
@pytest.mark.parametrize("softmax", [planted.OneUnitSoftmax, keras_softmax])
def test_a_discriminator_that_ends_in_a_softmax_over_one_unit_is_dead(softmax):
    """It gives 1 for everything, and no gradient."""
    model = planted.dann(head=planted.softmax_head(softmax()))
    name, state, reasons = said_of(model, "eager")
    assert (name, state) == ("discriminator dead", "no gradient")
    assert "same output for every example" in reasons[1]


def test_a_discriminator_that_does_not_learn_is_dead():
    model = planted.dann()
    model.domain_head.trainable = False
    assert said_of(model, "eager")[0] == "discriminator dead"


@pytest.mark.parametrize("weights", [0.0, "relu"])
def test_a_backbone_whose_features_are_the_same_for_every_example_is_dead(weights):
    layers = [keras.Input((2,)), keras.layers.Dense(2, activation="relu")]
    backbone = keras.Sequential(layers)
    kernel, bias = np.eye(2), np.full(2, -1e4 if weights == "relu" else 0.0)
    backbone.set_weights([kernel * (weights == "relu"), bias])
    name, _, reasons = said_of(planted.dann(backbone=backbone), "eager")
    assert name == "backbone dead"
    assert "are the same" in reasons[0]


def test_a_binary_layer_that_passes_no_gradient_is_named():
    name, state, reasons = said_of(planted.saturated(), "eager")
    assert (name, state) == ("saturated binary layer", "alive")
    assert "`binary`" in reasons[0]


def test_a_target_that_falls_on_one_class_has_collapsed():
    model = planted.collapsed()
    model.backbone.trainable = False
    model.compile(keras.optimizers.Adam(0.05), steps_per_execution=20)
    planted.trained(model, seed=0, steps=200)
    name, state, _ = said_of(model, "eager")
    assert (name, state) == ("collapsed", "alive")


def test_a_weak_strength_leaves_the_domains_apart():
    model = planted.trained(planted.dann(strength=0.01), seed=0, steps=100)
    name, state, _ = said_of(model, "eager")
    assert (name, state) == ("under-adapted", "alive")


def test_a_healthy_model_is_aligned_on_every_seed():
    model, found = planted.dann(strength=1.0), {}
    for seed in range(5):
        planted.trained(planted.initialized(model, seed), seed, steps=400)
        # The last as `fit` runs it; tracing takes longer.
        found[seed] = check(model, planted.batch(seed), mode=None if seed == 4 else "eager")
    names = {
        seed: (one.verdict.name, one.measurements["reversal/state"]) for seed, one in found.items()
    }
    assert names == dict.fromkeys(range(5), ("aligned", "alive"))
    text = str(found[4])
    assert text.startswith("aligned\n- A fresh classifier")
    line = next(line for line in text.splitlines() if line.startswith("reversal/cosine "))
    assert line.split() == ["reversal/cosine", "-1"]


def test_a_discriminator_that_is_right_and_sure_of_it_is_not_dead():
    model = planted.dann()
    x, y = planted.batch(0, 64)
    data = {"source": x["source"], "target": x["source"] + np.float32([60, 0])}, y
    model.backbone.set_weights([np.eye(2), np.zeros(2)][: len(model.backbone.weights)])
    # 16 units along the first feature; far from 30 the sigmoid is 0 or 1.
    towards = np.zeros((2, 16))
    towards[0] = 1
    model.domain_head.set_weights(
        [towards, np.full(16, -10.0), np.ones((16, 1)), np.full(1, -300.0)]
    )
    found = check(model, data, mode="eager")
    assert found.measurements["reversal/state"] == "no gradient"
    assert found.measurements["domain/accuracy"] == 1
    assert found.verdict.name == "under-adapted"
    assert any("so certain that" in reason for reason in found.verdict.reasons)


def test_one_hot_labels_are_checked_as_their_numbers():
    head = planted.dann()
    head.compile("adam", loss=keras.losses.CategoricalCrossentropy(from_logits=True))
    x, y = planted.batch(0, 64)
    found = check(head, (x, np.eye(2, dtype="float32")[y]), mode="eager")
    expected = label_loss_baselines(head, (x, y))
    for name in ("label/loss", "label/accuracy", "label/prior_entropy"):
        assert found.measurements[name] == pytest.approx(expected[name])
    assert not found.left_out


def test_labels_that_are_not_classes_leave_the_bounds_out():
    model = planted.dann()
    model.compile("adam", loss="mse")
    x, y = planted.batch(0, 64)
    found = check(model, (x, np.stack([y, 2.5 - y], 1).astype("float32")), mode="eager")
    assert "number of a class for each example" in found.left_out["bounds"]
    assert "label/loss" not in found.measurements


def with_noise():
    """WDGRL draws the points between the domains, from a seed that is a variable."""
    model = dann.WDGRL(planted.linear_backbone(), num_classes=2)
    model.compile("adam")
    return model


@pytest.mark.parametrize("make", [planted.dann, with_noise])
def test_a_check_changes_nothing(make):
    model = make()
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    before = [np.array(variable) for variable in variables]
    for measure in (discriminator_vs_probe, feature_distance, label_loss_baselines):
        measure(model, planted.batch(0, 32))
    check(model, planted.batch(0), mode="eager")
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable, value, err_msg=variable.path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["backbone", "label_head"])
def test_a_model_that_diverged_is_unstable_and_not_dead(part, value):
    model = planted.dann()
    weight = getattr(model, part).trainable_variables[0]
    weight.assign(np.full(weight.shape, value))
    name, state, reasons = said_of(model, "eager")
    assert name == "unstable"
    assert reasons[0].startswith("Not finite: ")
    assert (state == "not finite") == (part == "backbone")


def test_labels_in_a_column_are_those_in_a_row():
    model, (x, y) = planted.dann(), planted.batch(0, 64)
    row, column = (check(model, (x, labels), mode="eager") for labels in (y, y[:, None]))
    for name in ("label/loss", "label/accuracy", "label/prior_entropy", "conflict/cosine"):
        assert column.measurements[name] == pytest.approx(row.measurements[name])


@pytest.mark.parametrize("wrong", [{"mode": "fast"}, {"layer": "reversed"}])
def test_mistakes_in_the_arguments_are_refused(wrong):
    """They must not end as "undetermined"."""
    with pytest.raises(ValueError, match=next(iter(wrong.values()))):
        check(planted.dann(), planted.batch(0), **wrong)


def test_a_model_that_was_not_compiled_is_refused():
    model = planted.dann()
    model = type(model).from_config(model.get_config())
    with pytest.raises(ValueError, match="Compile the model first"):
        check(model, planted.batch(0))


ALIGNED = {
    "reversal/state": "alive",
    "reversal/head_norm": 0.1,
    "domain/spread": 0.2,
    "domain/loss": 0.69,
    "probe/loss": 0.69,
    "probe/matched_loss": 0.69,
    "label/loss": 0.1,
    "label/prior_entropy": 0.69,
    "label/largest_share": 0.5,
    "target/largest_share": 0.5,
    "mmd/squared": 0.01,
    "mmd/null": 0.003,
    "mmd/matched": 0.01,
    "mmd/matched_null": 0.003,
    "game/step": 0.01,
    "game/growth": 1.01,
    "game/least_real": -0.1,
    "binary/one/passed": 0.5,
}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, "aligned"),
        ({"reversal/state": "not begun"}, "aligned"),
        ({"features/spread": 0.0, "domain/spread": 0.0}, "backbone dead"),
        ({"features/spread": 1e-5}, "aligned"),
        ({"domain/spread": 9e-5}, "discriminator dead"),
        ({"domain/spread": 2e-4}, "aligned"),
        ({"reversal/head_norm": 0.0}, "discriminator dead"),
        ({"domain/spread": 0.0, "reversal/state": "forgotten"}, "reversal dead"),
        ({"reversal/state": "not finite"}, "unstable"),
        ({"reversal/state": "forgotten", "label/loss": float("inf")}, "unstable"),
        ({"game/growth": 1.11}, "unstable"),
        ({"game/growth": 1.09}, "aligned"),
        ({"label/loss": float("nan")}, "unstable"),
        ({"reversal/state": "cannot tell"}, "aligned"),
        ({"reversal/state": "no gradient", "domain/loss": 3e-16}, "under-adapted"),
        ({"reversal/state": "no gradient", "domain/loss": 0.5}, "discriminator dead"),
        ({"reversal/head_norm": 0.0, "domain/loss": 3e-16}, "discriminator dead"),
        ({"binary/one/passed": 0.09}, "saturated binary layer"),
        ({"target/largest_share": 0.95}, "collapsed"),
        ({"target/largest_share": 0.95, "label/largest_share": 0.94}, "aligned"),
        (
            {"target/largest_share": 0.95, "probe/loss": 0.1, "probe/matched_loss": 0.1},
            "under-adapted",
        ),
        ({"probe/loss": 0.34}, "under-adapted"),
        ({"probe/loss": 0.36}, "aligned"),
        ({"domain/loss": 0.34}, "under-adapted"),
        ({"label/loss": 0.63}, "under-adapted"),
        ({"label/loss": 0.62}, "aligned"),
        ({"binary/one/passed": 0.11}, "aligned"),
        ({"target/largest_share": 0.89}, "aligned"),
        ({"reversal/state": "no gradient", "game/growth": 1.5}, "discriminator dead"),
        ({"game/growth": 1.5, "binary/one/passed": 0.05}, "unstable"),
        ({"binary/one/passed": 0.05, "target/largest_share": 0.95}, "saturated binary layer"),
        ({"target/largest_share": 0.95, "mmd/squared": 0.3, "mmd/matched": 0.3}, "collapsed"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06}, "under-adapted"),
        ({"mmd/squared": 0.06}, "aligned"),
        ({"mmd/matched": 0.06}, "aligned"),
        ({"mmd/squared": 0.04, "mmd/matched": 0.04}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06, "mmd/null": 0.016}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06, "mmd/matched_null": 0.016}, "aligned"),
    ],
)
def test_each_rule_holds_at_its_threshold(change, name):
    assert verdict(ALIGNED | change).name == name


@pytest.mark.parametrize("number", ["label/loss", "binary/one/passed", "game/largest_stable_step"])
def test_one_number_that_is_not_finite_is_enough(number):
    assert verdict(ALIGNED | {number: float("nan")}).reasons[0] == f"Not finite: {number}."
    assert verdict(ALIGNED | {number: np.float32("nan")}).name == "unstable"


def test_a_number_of_an_array_that_is_not_finite_is_enough_too():
    number = "jacobian/source/logits/singular_values"
    assert verdict(ALIGNED | {number: np.array([1.0, np.inf])}).name == "unstable"
    assert verdict(ALIGNED | {number: np.array([1.0, 0.5])}).name == "aligned"


def test_what_may_be_infinite_is_no_fault():
    for number in ("game/largest_stable_step", "jacobian/target_to_source"):
        assert verdict(ALIGNED | {number: float("inf")}).name == "aligned"
    assert verdict(ALIGNED | {"sharpness/trace": float("inf")}).name == "unstable"


@pytest.mark.parametrize(
    ("eigenvalues", "step", "momentum", "expected", "name"),
    [
        ([25, 1], 0.1, 0.9, 0.949, "aligned"),  # overshoots without the momentum
        ([25, 1], 0.1, 0.0, 1.5, "unstable"),
        ([0.5 + 3j, 0.5 - 3j], 0.1, 0.9, 1.379, "unstable"),
        ([0.5 + 3j, 0.5 - 3j], 0.1, 0.0, 0.996, "aligned"),
        ([-1.35, 1], 0.05, 0.9, 1.244, "aligned"),  # the way down from a saddle
        ([-0.1 + 3j, -0.1 - 3j], 0.1, 0.9, 1.431, "unstable"),
        ([-3, 1], 0.3, 0.0, 1.9, "unstable"),  # too fast a way down
        ([-0.5 + 8j, -0.5 - 8j], 0.1, 0.0, 1.32, "unstable"),  # turns more than it pushes
    ],
)
def test_a_game_is_unstable_by_its_growth_with_momentum(
    eigenvalues, step, momentum, expected, name
):
    eigenvalues = np.array(eigenvalues, complex)
    factor = growth(eigenvalues, step, momentum)
    assert factor == pytest.approx(expected, abs=0.01)
    found = {**stability(eigenvalues), "game/step": step, "game/growth": factor}
    assert verdict(ALIGNED | found).name == name


def test_the_discrepancy_separates_domains_that_a_linear_probe_takes_for_one():
    """The target surrounds the source."""
    rng = np.random.default_rng(3)
    inner, outer = rng.normal(size=(2, 300, 2)).astype("float32")
    outer *= 4 / np.linalg.norm(outer, axis=1, keepdims=True)
    model = planted.dann()
    model.backbone.set_weights([np.eye(2), np.zeros(2)][: len(model.backbone.weights)])
    labels = (inner[:, 0] > 0).astype(int)
    for target, differs in ((outer, True), (inner[::-1] + 0.01, False)):
        data = {"source": inner, "target": target}, labels
        found = discriminator_vs_probe(model, data) | feature_distance(model, data)
        name, reasons = vars(verdict(found)).values()
        assert found["probe/loss"] > 0.6
        assert name == ("under-adapted" if differs else "aligned")
        assert ("perhaps not linearly" in reasons[0]) == differs


def test_other_shares_of_the_same_classes_do_not_make_domains_differ():
    rng = np.random.default_rng(4)
    source, target = (np.sign(rng.random(400) - share) for share in (0.5, 0.12))
    places = [np.stack([2 * of, 0 * of], 1) for of in (source, target)]
    inputs = [(place + 0.3 * rng.normal(size=(400, 2))).astype("float32") for place in places]
    model = planted.dann()
    for part, kernel in ((model.backbone, np.eye(2)), (model.label_head, [[-5, 5], [0, 0]])):
        part.set_weights([np.array(kernel), np.zeros(2)][: len(part.weights)])
    data = {"source": inputs[0], "target": inputs[1]}, (source > 0).astype(int)
    found = feature_distance(model, data)
    assert found["mmd/squared"] > 0.07
    assert found["mmd/matched"] < 0.02
    said = verdict(discriminator_vs_probe(model, data) | found)
    assert said.name == "aligned"
    assert any("comes from other shares of the classes" in reason for reason in said.reasons)


def test_the_reasons_mention_oddities_that_do_not_decide():
    change = {"reversal/state": "wrong strength", "reversal/ratio": 0.2, "reversal/strength": 1.0}
    change |= {"domain/loss": 1.25, "target/conditional_entropy": 0.5, "label/log_classes": 0.69}
    _, *remarks = verdict(ALIGNED | change).reasons
    assert "strength 0.2, but the reversal reports 1" in remarks[0]
    assert "0.56 nats above a fresh one" in remarks[1]
    assert "little certainty" in remarks[2]
    assert verdict(ALIGNED | change | {"label/loss": 0.65}).reasons[1:] == tuple(remarks)
    assert len(verdict(ALIGNED | {"domain/loss": 1.15}).reasons) == 1
