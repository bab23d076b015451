"""Verdicts on models whose state is known."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal
from support.shifted_classes import linear_backbone, shifted_classes

import dann
from dann.diagnostics import check, measure
from dann.layers import BinarySign
from dann.networks import domain_head, label_head


def build_dann(cls=dann.DANN, strength=0.7, backbone=None, head=None):
    """A compiled `DANN` with 2 linear features."""
    model = cls(
        backbone or linear_backbone(),
        label_head=label_head(2, 2, hidden_units=()),
        domain_head=head or domain_head(2, hidden_units=(16,)),
        strength=strength,
    )
    model.compile(keras.optimizers.Adam(0.01, beta_1=0.5), steps_per_execution=20)
    return model


def load_batch(seed, size=512):
    source, labels, target, _ = shifted_classes(seed)
    return {"source": source[:size], "target": target[:size]}, labels[:size]


def train(model, seed, steps):
    """Trains the model in `fit`, on random batches of 64."""
    x, y = load_batch(seed)
    rng = np.random.default_rng(seed)
    rows = {name: rng.integers(len(part), size=64 * steps) for name, part in x.items()}
    pair = {name: part[rows[name]] for name, part in x.items()}
    model.fit(pair, y[rows["source"]], batch_size=64, shuffle=False, verbose=0)


def saturated():
    """A binary layer whose inputs are nearly all outside [-1, 1]."""
    large = keras.initializers.RandomNormal(stddev=60.0, seed=1)
    layers = keras.layers.Dense(32, kernel_initializer=large), BinarySign(name="binary")
    return build_dann(
        backbone=keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(2)])
    )


def check_model(model, mode="eager", data=None):
    """Returns the verdict, the state of the reversal and the reasons."""
    diagnosis = check(model, data or load_batch(0), mode=mode)
    state = diagnosis.measurements.get("reversal/state")
    return diagnosis.verdict.name, state, diagnosis.verdict.reasons


def normal_domains(shift, seed=0, size=512):
    """Two classes along the second feature; the domains differ by `shift` along the first."""
    rng = np.random.default_rng(seed)
    labels = [np.arange(size) % 2, rng.permutation(size) % 2]
    source, target = (np.stack([np.zeros(size), 4.0 * part - 2], 1) for part in labels)
    source, target = (rng.normal(size=(size, 2)) + center for center in (source, target))
    pair = {"source": source, "target": target + [shift, 0.0]}
    return {k: v.astype("float32") for k, v in pair.items()}, labels[0]


def knows_classes(cls=dann.DANN, **kwargs):
    """A model whose features are its inputs and that separates the classes of `normal_domains`."""
    model = cls(linear_backbone(), label_head=label_head(2, 2, hidden_units=()), **kwargs)
    model.compile("sgd")
    kernels = {model.backbone: np.eye(2), model.label_head.layers[-1]: [[0, 0], [-1, 1]]}
    for part, kernel in kernels.items():
        part.set_weights([np.array(kernel), np.zeros(2)][: len(part.weights)])
    return model


def one_class():
    x, labels = normal_domains(0.0)
    return x | {"target": np.abs(x["target"])}, labels


def frozen(part):
    model = build_dann()
    getattr(model, part).trainable = False
    model.compile("sgd")
    return model


def constant_features(kernel, bias):
    """A model with the same features for every example."""
    backbone = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, activation="relu")])
    backbone.set_weights([np.float32(kernel) * np.eye(2), np.full(2, np.float32(bias))])
    return build_dann(backbone=backbone)


def shifted_labels():
    """The second class is 7 times as frequent as the first in the target."""
    x, labels = normal_domains(0.0)
    second = np.flatnonzero(x["target"][:, 1] > 0)
    rows = np.concatenate([second, np.flatnonzero(x["target"][:, 1] <= 0)[: len(second) // 7]])
    return x | {"target": x["target"][rows]}, labels


KNOWN = {
    "aligned": (knows_classes, normal_domains(0.0)),
    "partly aligned": (knows_classes, normal_domains(1.35)),  # Phi(1.35 / 2) is 75%
    "not aligned": (knows_classes, normal_domains(4.0)),
    "label shift": (knows_classes, shifted_labels()),
    "source only": (lambda: knows_classes(dann.SourceOnly), normal_domains(4.0)),
    "oracle": (lambda: knows_classes(dann.TargetOnly), normal_domains(0.0)),
    "collapsed": (knows_classes, one_class()),
    "labels not learned": (build_dann, normal_domains(0.0)),
    "saturated binary layer": (saturated, None),
    "discriminator not learning": (lambda: frozen("domain_head"), None),
    "broken reversal": (lambda: build_dann(strength=0.0), None),
    "backbone not learning": (lambda: frozen("backbone"), None),
    "backbone not learning, all units": (lambda: constant_features(1.0, -1e4), None),
    "backbone not learning, constant": (lambda: constant_features(0.0, 3.0), None),
}


@pytest.mark.parametrize("state", KNOWN)
def test_known_state_is_named(state):
    build, data = KNOWN[state]
    name, _, reasons = check_model(build(), data=data)
    assert name == state.partition(",")[0]
    explained = any("Different class shares" in reason for reason in reasons)
    assert explained == (state == "label shift")


@pytest.mark.parametrize("method", [dann.DANN, dann.WDGRL])  # `WDGRL` draws random points
def test_measuring_changes_nothing(method):
    model = method(linear_backbone(), num_classes=2, strength=0.7)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    train(model, seed=0, steps=2)
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    before = [np.array(variable) for variable in variables]
    measure(model, load_batch(0, 16))
    assert_all_equal(before, variables)


@pytest.mark.parametrize(("part", "value"), [("backbone", np.nan), ("label_head", np.inf)])
def test_diverged_model_is_named(part, value):
    model = build_dann()
    weight = getattr(model, part).trainable_variables[0]
    weight.assign(np.full(weight.shape, value))
    name, state, reasons = check_model(model)
    assert name == "diverged"
    assert reasons[0].startswith("Not finite: ")
    assert (state == "not finite") == (part == "backbone")
