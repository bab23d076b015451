"""The spectrum of the game, on games whose spectrum is known."""

import keras
import numpy as np
import pytest
from keras import ops
from linear_models import DATA, field_by_hand, linear_dann
from support.closed_forms import jacobian_by_differences
from support.networks import network

import dann
from dann.adaptation import CDAN, DANN
from dann.autodiff import gradients
from dann.diagnostics import minmax_spectrum
from dann.diagnostics.fields import descent_of, explicit_field, players, step_field
from dann.diagnostics.minmax_spectrum import growth, stability
from dann.diagnostics.spectrum import spectrum
from dann.schedules import GaninSchedule

MATRIX = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 3.0]], "float32")
START = [np.ones(3, "float32"), np.full(3, 0.5, "float32")]


def rises(x, y):
    """The domain loss `x' B y` of a game that has no label loss."""
    return ops.sum(x * ops.sum(ops.convert_to_tensor(MATRIX) * y, axis=1))


def explicit(x, y):
    slopes = gradients(rises, [x, y])
    return [-slopes[0], slopes[1]]


def test_a_bilinear_game_only_turns_with_the_singular_values_of_its_matrix():
    found, _ = spectrum(explicit, START)
    turns = np.linalg.svd(MATRIX, compute_uv=False)
    np.testing.assert_allclose(found.real, 0, atol=1e-5)
    np.testing.assert_allclose(np.sort(found.imag), np.sort([*turns, *-turns]), atol=1e-5)


def test_of_a_large_matrix_the_ends_of_the_spectrum_are_found():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(120, 120)) / np.sqrt(120)
    matrix[:2, :2] += [[0, 3], [-3, 0]]
    matrix[2, 2], matrix[3, 3] = 5, -2
    tensor = ops.convert_to_tensor(matrix, "float32")
    found, converged = spectrum(lambda x: [ops.sum(tensor * x, axis=1)], [np.ones(120, "float32")])
    true = np.linalg.eigvals(matrix)
    for key in (abs, lambda z: z.imag, lambda z: -z.real):
        best = true[np.argmax([key(value) for value in true])]
        assert abs(found - best).min() < 1e-2 * abs(best)
    assert len(found) < 11
    assert converged == 1


def test_an_end_of_the_spectrum_that_was_not_found_lowers_converged():
    """Of a game that only turns, disturbed: its small real parts lie close together."""
    rng = np.random.default_rng(3)
    block = rng.normal(size=(100, 100)) / 10
    matrix = np.block([[np.zeros((100, 100)), block], [-block.T, np.zeros((100, 100))]])
    matrix += 0.3 * rng.normal(size=matrix.shape) / 10
    tensor = ops.convert_to_tensor(matrix, "float32")
    found, converged = spectrum(lambda x: [ops.sum(tensor * x, axis=1)], [np.ones(200, "float32")])
    true = np.linalg.eigvals(matrix)
    assert abs(found.imag).max() == pytest.approx(abs(true.imag).max(), rel=1e-2)
    assert found.real.min() > 0.9 * true.real.min()
    assert converged == pytest.approx(6 / 9)


class TripleDomainLoss(DANN):
    """A method of a user's own: the discriminator counts three times."""

    def method_losses(self, batch, labels, reversal, training):
        terms = super().method_losses(batch, labels, reversal, training)
        return {**terms, "domain/loss": 3 * terms["domain/loss"]}


TRIPLE = np.repeat([1.0, 1.0, 3.0], [6, 4, 2])


def eigenvalues_of(found):
    return found["game/eigenvalues/real"] + 1j * found["game/eigenvalues/imag"]


@pytest.mark.parametrize(
    ("cls", "strength", "field", "tolerance"),
    [
        (DANN, 0.0, lambda w: field_by_hand(w, 0.0), 2e-4),
        (DANN, 0.7, lambda w: field_by_hand(w, 0.7), 2e-4),
        # `CDAN` keeps its predictions from the domain loss; in training they move all the same.
        (CDAN, 0.7, lambda w: field_by_hand(w, 0.7), 1e-3),
        (TripleDomainLoss, 0.7, lambda w: TRIPLE * field_by_hand(w, 3 * 0.7), 1e-3),
    ],
)
def test_the_spectrum_is_that_of_the_training_field_by_differences(cls, strength, field, tolerance):
    model, weights = linear_dann(strength, cls=cls)
    flat = np.concatenate([weight.ravel() for weight in weights])
    true = np.linalg.eigvals(jacobian_by_differences(field, flat))
    found = minmax_spectrum(model, DATA)
    eigenvalues = eigenvalues_of(found)
    assert len(eigenvalues) == len(true)
    assert found["game/converged"] == 1
    for value in true:
        assert abs(eigenvalues - value).min() < tolerance
    assert found["game/rotation"] == pytest.approx(abs(true.imag).max(), abs=tolerance)
    assert (found["game/rotation"] > 0.05) == (strength > 0)
    assert found["game/radius"] == pytest.approx(abs(true).max(), rel=1e-3)
    assert found["game/min_real_part"] == pytest.approx(true.real.min(), abs=tolerance)
    assert found["game/step"] == pytest.approx(0.05)
    growth_of_it = abs(1 - 0.05 * true).max()
    assert found["game/growth"] == pytest.approx(growth_of_it, abs=tolerance / 2)
    if cls is CDAN:  # the derivative of its field through the reversal is another
        values = [ops.convert_to_tensor(variable.value) for variable in players(model)]
        wrong, _ = spectrum(step_field(model, DATA), values)
        assert max(abs(wrong - value).min() for value in true) > 0.05


def assert_a_step_descends(model, *fields_of):
    before = [np.array(variable) for variable in players(model)]
    fields = [field_of(model, DATA)(*before) for field_of in fields_of]
    model.fit(*DATA, batch_size=6, verbose=0)
    for field in fields:
        for old, variable, slope in zip(before, players(model), field, strict=True):
            np.testing.assert_allclose(slope, old - np.array(variable), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("strength", [0.7, GaninSchedule(total_steps=8)])
def test_the_field_is_what_a_step_of_length_1_descends_regularizers_and_next_strength(strength):
    inputs = keras.Input((2,))
    outputs = keras.layers.Dense(1, use_bias=False, kernel_regularizer="l2")(inputs)
    model = DANN(
        network((3, 2), "backbone"),
        label_head=network((2, 2), "label_head"),
        domain_head=keras.Model(inputs, outputs),
        strength=strength,
    )
    model.label_head.layers[-1].kernel.regularizer = keras.regularizers.L1(0.1)
    model.compile(keras.optimizers.SGD(1.0))
    model.fit(*DATA, batch_size=3, verbose=0)
    assert_a_step_descends(model, explicit_field, step_field)


@pytest.mark.parametrize("method", ["CDAN", "MCD", "MDD"])
def test_the_field_of_another_method_is_what_its_step_descends(method):
    model = getattr(dann, method)(network((3, 4), "backbone"), num_classes=2, strength=0.7)
    model.compile(keras.optimizers.SGD(1.0))
    assert len(players(model)) == len(model.trainable_variables)
    assert_a_step_descends(model, step_field)


def test_differences_of_a_field_give_the_spectrum_of_its_derivative():
    model, _ = linear_dann()
    values = [ops.convert_to_tensor(variable.value) for variable in players(model)]
    exact, _ = spectrum(explicit_field(model, DATA), values)
    near, _ = spectrum(step_field(model, DATA), values, differences=True)
    assert max(abs(near - value).min() for value in exact) < 1e-3


def test_faster_heads_multiply_their_part_of_the_field():
    model, weights = linear_dann()
    model.compile(dann.optimizers.faster_heads(model, keras.optimizers.SGD(0.02), 3.0))
    factors = np.repeat([1.0, 3.0, 3.0], [6, 4, 2])
    flat = np.concatenate([weight.ravel() for weight in weights])
    jacobian = jacobian_by_differences(lambda w: factors * field_by_hand(w, 0.7), flat)
    true = np.linalg.eigvals(jacobian)
    model.optimizer.build(model.trainable_variables)
    found = minmax_spectrum(model, DATA)
    assert found["game/step"] == pytest.approx(0.02)
    assert found["game/radius"] == pytest.approx(abs(true).max(), rel=1e-3)
    assert found["game/min_real_part"] == pytest.approx(true.real.min(), abs=2e-4)


def test_the_largest_stable_step_is_where_a_direction_stops_shrinking():
    eigenvalues = np.array([4.0, 0.5 + 2.0j, 0.5 - 2.0j, -0.1, 1e-9])
    found = stability(eigenvalues)
    step = found["game/largest_stable_step"]
    assert step == pytest.approx(2 * 0.5 / 4.25)
    assert abs(1 - 0.99 * step * eigenvalues[:3]).max() < 1
    assert abs(1 - 1.01 * step * eigenvalues[:3]).max() > 1
    assert found["game/rotation"] == 2.0
    assert found["game/min_real_part"] == -0.1


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.8, False), (0.8, True)])
def test_growth_is_that_of_the_optimizer_on_the_linear_field(momentum, nesterov):
    matrix = np.array([[0.4, 2.0], [-2.0, 0.4]], "float32")
    optimizer = keras.optimizers.SGD(0.3, momentum=momentum, nesterov=nesterov)
    weight = keras.Variable(np.array([1.0, -0.5], "float32"))
    optimizer.build([weight])
    lengths = []
    for _ in range(60):
        optimizer.apply([ops.convert_to_tensor(matrix @ np.array(weight))])
        lengths.append(np.linalg.norm(np.array(weight)))
    shown = (lengths[-1] / lengths[19]) ** (1 / 40)
    assert growth(np.linalg.eigvals(matrix), 0.3, momentum, nesterov) == pytest.approx(
        shown, rel=0.02
    )


class OtherLoss(DANN):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return 2 * super().compute_loss(x, y, y_pred, sample_weight, training)


def test_another_loss_and_another_optimizer_are_not_mistaken_for_these():
    model, _ = linear_dann()
    twice, _ = linear_dann(cls=OtherLoss)
    radius = minmax_spectrum(model, DATA)["game/radius"]
    assert minmax_spectrum(twice, DATA)["game/radius"] == pytest.approx(2 * radius, rel=1e-3)
    model, _ = linear_dann(optimizer=keras.optimizers.Adam(0.01))
    assert descent_of(model) is None


def of_nan():
    model, _ = linear_dann()
    model.trainable_variables[0].assign(np.full((3, 2), np.nan))
    return model


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: dann.SourceOnly(network((3, 2), "backbone"), 2), ValueError),
        (lambda: DANN(network((3, 2), "backbone"), 2, task_radius=0.05), ValueError),
        (lambda: dann.WDGRL(network((3, 2), "backbone"), 2), ValueError),
        (of_nan, ValueError),
    ],
)
def test_what_has_no_game_is_refused(make, error):
    model = make()
    model.compile("sgd")
    with pytest.raises(error):
        minmax_spectrum(model, DATA)
