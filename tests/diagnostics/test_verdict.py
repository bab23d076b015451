"""A model whose state is known gets its name."""

import keras
import numpy as np
import planted
import pytest
from support.arrays import assert_all_equal

import dann
from dann.diagnostics import check, discriminator_vs_probe, feature_distance, measure, verdict
from dann.diagnostics import label_loss_baselines as baselines
from dann.networks import domain_head, label_head


def said_of(model, mode="eager", data=None):
    found = check(model, data or planted.batch(0), mode=mode)
    return found.verdict.name, found.measurements.get("reversal/state"), found.verdict.reasons


def normal_domains(shift, seed=0, size=512):
    """Two classes along the second feature; the domains differ by `shift` along the first."""
    rng = np.random.default_rng(seed)
    labels = [np.arange(size) % 2, rng.permutation(size) % 2]
    source, target = (np.stack([np.zeros(size), 4.0 * one - 2], 1) for one in labels)
    source, target = (rng.normal(size=(size, 2)) + center for center in (source, target))
    pair = {"source": source, "target": target + [shift, 0.0]}
    return {k: v.astype("float32") for k, v in pair.items()}, labels[0]


def knows_classes(cls=dann.DANN, **kwargs):
    """A model whose features are its inputs, and which knows the classes of `normal_domains`."""
    model = cls(planted.linear_backbone(), label_head=label_head(2, 2, hidden_units=()), **kwargs)
    model.compile("sgd")
    kernels = {model.backbone: np.eye(2), model.label_head.layers[-1]: [[0, 0], [-1, 1]]}
    for part, kernel in kernels.items():
        part.set_weights([np.array(kernel), np.zeros(2)][: len(part.weights)])
    return model


def one_class():
    x, labels = normal_domains(0.0)
    return x | {"target": np.abs(x["target"])}, labels


def frozen(part):
    model = planted.dann()
    getattr(model, part).trainable = False
    model.compile("sgd")
    return model


def one_feature_vector(kernel, bias):
    """A backbone that gives the same features for every example."""
    backbone = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, activation="relu")])
    backbone.set_weights([np.float32(kernel) * np.eye(2), np.full(2, np.float32(bias))])
    return planted.dann(backbone=backbone)


def other_shares():
    """The target has the second class 7 times as often as the first."""
    x, labels = normal_domains(0.0)
    mostly = np.flatnonzero(x["target"][:, 1] > 0)
    rows = np.concatenate([mostly, np.flatnonzero(x["target"][:, 1] <= 0)[: len(mostly) // 7]])
    return x | {"target": x["target"][rows]}, labels


KNOWN = {
    "aligned": (knows_classes, normal_domains(0.0)),
    "partly aligned": (knows_classes, normal_domains(1.35)),  # Phi(1.35 / 2) is 75%
    "not aligned": (knows_classes, normal_domains(4.0)),
    "label shift": (knows_classes, other_shares()),
    "source only": (lambda: knows_classes(dann.SourceOnly), normal_domains(4.0)),
    "oracle": (lambda: knows_classes(dann.TargetOnly), normal_domains(0.0)),
    "collapsed": (knows_classes, one_class()),
    "labels not learned": (planted.dann, normal_domains(0.0)),
    "saturated binary layer": (planted.saturated, None),
    "discriminator dead": (lambda: frozen("domain_head"), None),
    "reversal dead": (lambda: planted.dann(strength=0.0), None),
    "backbone dead": (lambda: frozen("backbone"), None),
    "backbone dead, no unit alive": (lambda: one_feature_vector(1.0, -1e4), None),
    "backbone dead, of zeros": (lambda: one_feature_vector(0.0, 0.0), None),
    "backbone dead, tiny": (lambda: one_feature_vector(1e-8, 0.0), None),
    "backbone dead, constant": (lambda: one_feature_vector(0.0, 3.0), None),
}


@pytest.mark.parametrize("state", KNOWN)
def test_a_known_state_is_named(state):
    make, data = KNOWN[state]
    name, _, reasons = said_of(make(), data=data)
    assert name == state.partition(",")[0]
    of_shares = any("may come from the classes' shares" in reason for reason in reasons)
    assert of_shares == (state == "label shift")


DEAD_REVERSALS = {
    "not applied": planted.Forgotten,
    "applied twice": planted.Twice,
    "partly reversed": planted.OneDomain,
    "detached": planted.Cut,
    "discriminator reversed": planted.BehindHead,
}


@pytest.mark.parametrize("state", [*DEAD_REVERSALS, "wrong sign"])
def test_a_reversal_that_does_not_reverse_is_dead_and_says_why(state):
    model = planted.dann(DEAD_REVERSALS.get(state, dann.DANN))
    if state == "wrong sign":
        model.reversal.strength.assign(-planted.STRENGTH)
    assert said_of(model)[:2] == ("reversal dead", state)


def test_a_method_that_adapts_without_an_adversary_is_no_source_only():
    model = dann.SourceOnly(planted.linear_backbone(), 2, regularizers=[dann.MCC(weight=1.0)])
    model.compile("sgd")
    assert said_of(model)[:2] != ("source only", "no adversary")


@pytest.mark.filterwarnings("ignore:(?s).*a softmax over axis")
def test_a_discriminator_that_ends_in_a_softmax_over_one_unit_is_dead():
    """It gives 1 for everything, and no gradient."""
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(1), planted.OneUnitSoftmax()]
    model = planted.dann(head=keras.Sequential([keras.Input((2,)), *layers]))
    name, state, reasons = said_of(model)
    assert (name, state) == ("discriminator dead", "no gradient")
    assert any("`domain/spread` is 0" in reason for reason in reasons)


def test_a_trained_model_is_aligned_as_fit_runs_it():
    model, names = planted.dann(strength=1.0), set()
    for seed in range(3):
        planted.trained(planted.initialized(model, seed), seed, steps=800)  # 400 leave 75% apart
        # The last as `fit` runs it; tracing takes longer.
        found = check(model, planted.batch(seed), mode=None if seed == 2 else "eager")
        names.add((found.verdict.name, found.measurements["reversal/state"]))
    assert names == {("aligned", "alive")}
    assert found.verdict.headline in str(found)


def test_a_discriminator_that_is_right_and_sure_of_it_is_not_dead():
    model = knows_classes(domain_head=domain_head(2, hidden_units=(16,)))
    x, y = planted.batch(0, 64)
    data = {"source": x["source"], "target": x["source"] + np.float32([0, 60])}, y
    # 16 units along the second feature; far from 30 the sigmoid is 0 or 1.
    towards = np.zeros((2, 16))
    towards[1] = 1
    weights = [towards, np.full(16, -10.0), np.ones((16, 1)), np.full(1, -300.0)]
    model.domain_head.set_weights(weights)
    model.label_head.layers[-1].set_weights([np.array([[-3, 3], [0, 0]]), np.zeros(2)])
    name, state, reasons = said_of(model, data=data)
    assert (name, state) == ("not aligned", "no gradient")
    assert any("so certain that" in reason for reason in reasons)


@pytest.mark.parametrize("form", [lambda y: np.eye(2, dtype="float32")[y], lambda y: y[:, None]])
def test_labels_in_another_form_are_checked_as_their_numbers(form):
    model, (x, y) = planted.dann(), planted.batch(0, 64)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True) if form(y).shape[1] > 1 else None
    model.compile("adam", **({"loss": loss} if loss else {}))
    found, expected = check(model, (x, form(y)), mode="eager"), baselines(model, (x, y))
    for name in ("label/loss", "label/accuracy", "label/prior_entropy"):
        assert found.measurements[name] == pytest.approx(expected[name])
    assert not found.skip_reasons


def test_labels_that_are_not_classes_leave_the_bounds_out():
    model = planted.dann()
    model.compile("adam", loss="mse")
    x, y = planted.batch(0, 64)
    found = check(model, (x, np.stack([y, 2.5 - y], 1).astype("float32")), mode="eager")
    assert set(found.skip_reasons) == {"label_loss_baselines"}
    assert "label/loss" not in found.measurements


@pytest.mark.parametrize("method", [dann.DANN, dann.WDGRL])  # the second draws random points
def test_measuring_changes_nothing(method):
    model = method(planted.linear_backbone(), num_classes=2, strength=0.7)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    planted.trained(model, seed=0, steps=2)
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    before = [np.array(variable) for variable in variables]
    measure(model, planted.batch(0, 16))
    assert_all_equal(before, variables)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["backbone", "label_head"])
def test_a_model_that_diverged_is_not_dead(part, value):
    model = planted.dann()
    weight = getattr(model, part).trainable_variables[0]
    weight.assign(np.full(weight.shape, value))
    name, state, reasons = said_of(model)
    assert name == "diverged"
    assert reasons[0].startswith("Not finite: ")
    assert (state == "not finite") == (part == "backbone")


def test_the_discrepancy_separates_domains_that_a_linear_probe_takes_for_one():
    """The target surrounds the source."""
    rng = np.random.default_rng(3)
    inner, outer = rng.normal(size=(2, 300, 2)).astype("float32")
    outer *= 4 / np.linalg.norm(outer, axis=1, keepdims=True)
    model, labels = knows_classes(), (inner[:, 0] > 0).astype(int)
    for target, name in ((outer, "not aligned"), (inner[::-1] + 0.01, "aligned")):
        data = {"source": inner, "target": target}, labels
        found = discriminator_vs_probe(model, data) | feature_distance(model, data)
        assert found["probe/loss"] > 0.6
        assert verdict(found).name == name
