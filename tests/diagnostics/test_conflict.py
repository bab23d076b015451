"""The gradients of both losses on the backbone, against NumPy and in a training run."""

import csv
import itertools

import keras
import numpy as np
import pytest
from support.arrays import LABELS, PAIR, SOURCE, TARGET, assert_all_equal
from support.closed_forms import dann_by_hand
from support.networks import linear_dann, linear_model, network, read_weights

from dann.adaptation import DANN
from dann.diagnostics import Diagnostics, gradient_conflict

DATA = PAIR, LABELS
MODES = [*itertools.product(("eager", "graph"), (True, False)), ("xla", True)]


def slopes_by_hand(a1, a2, b, w):
    """Gradients of both matrices, flat: of the label loss, and of the reversed domain loss.

    Without its head `w`, the domain loss has no gradient.
    """
    label, total = (
        dann_by_hand((a1 @ a2, b, head), SOURCE, LABELS, TARGET)[1][0] for head in (0 * w, w)
    )
    return [np.append(slope @ a2.T, a1.T @ slope) for slope in (label, total - label)]


@pytest.mark.parametrize(("mode", "joint_forward"), MODES)
def test_norms_and_cosine_match_numpy(mode, joint_forward):
    model = linear_dann(backbone=network((3, 5, 4), "backbone"), joint_forward=joint_forward)
    model.compile("sgd")
    label, domain = slopes_by_hand(*read_weights(model))
    sizes = np.linalg.norm(label), np.linalg.norm(domain)
    expected = {
        "conflict/label_norm": sizes[0],
        "conflict/domain_norm": sizes[1],
        "conflict/ratio": sizes[1] / sizes[0],
        "conflict/cosine": label @ domain / sizes[0] / sizes[1],
    }
    assert gradient_conflict(model, DATA, mode=mode) == pytest.approx(expected, rel=1e-4)


class EqualLosses(DANN):
    def method_losses(self, batch, reversal, training):
        terms = super().method_losses(batch, reversal, training)
        return {**terms, "label/loss": terms["domain/loss"]}


def test_dropout_draws_the_same_mask_for_both_losses():
    """For equal losses the gradients are parallel only if the masks are equal."""
    inputs = keras.Input((3,))
    dropped = keras.layers.Dropout(0.5)(keras.layers.Dense(4)(inputs))
    model = linear_model(EqualLosses, backbone=keras.Model(inputs, dropped))
    model.compile("sgd")
    assert gradient_conflict(model, DATA, mode="eager")["conflict/cosine"] == pytest.approx(1)


RNG = np.random.default_rng(0)
X = {name: RNG.normal(size=(24, 3)).astype("float32") for name in ("source", "target")}
Y = np.arange(24) % 2
BATCH = ({name: part[:8] for name, part in X.items()}, Y[:8])


def train(callbacks):
    """Trains a DANN with dropout and momentum, always with the same seeds and batches."""
    keras.utils.set_random_seed(1)
    backbone = network((3, 4), "backbone", "tanh")
    dropped = keras.layers.Dropout(0.3, seed=2)(backbone.output)
    model = DANN(keras.Model(backbone.input, dropped), num_classes=2)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), metrics=["accuracy"], jit_compile=False)
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    return model, model.fit(X, Y, callbacks=callbacks, **options).history


def test_numbers_are_logged_and_the_training_is_unchanged(tmp_path):
    diagnostics = Diagnostics(("certify", "label_loss_baselines", "gradient_conflict"), BATCH)
    logger = keras.callbacks.CSVLogger(tmp_path / "metrics.csv")
    model, history = train([diagnostics, logger])
    plain_model, plain_history = train([])
    assert {name: history[name] for name in plain_history} == plain_history
    assert_all_equal(model.variables, plain_model.variables)
    with (tmp_path / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    expected = gradient_conflict(plain_model, BATCH)
    for name in ("conflict/cosine", "conflict/ratio"):
        assert history[f"diagnostics/{name}"] == [pytest.approx(expected[name], rel=1e-4)]
        assert float(row[f"diagnostics/{name}"]) == pytest.approx(expected[name], rel=1e-4)
    assert float(row["diagnostics/reversal/cosine"]) == pytest.approx(-1, abs=1e-5)


def test_failed_measurement_is_logged_as_nan():
    results = iter([{"gain": 1.0}])

    def measure_once(model, data):
        for result in results:
            return result
        raise ValueError("the training diverged")

    with pytest.warns(UserWarning, match="'gain' is NaN. .*the training diverged"):
        _, history = train([Diagnostics({"gain": measure_once}, BATCH)])
    assert np.isnan(history["diagnostics/gain"]).all()
