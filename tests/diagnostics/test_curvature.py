"""The spectrum of the min-max game and the Hessian of the label loss, against closed forms."""

import keras
import numpy as np
import pytest
from keras import ops
from linear_models import DATA, LABELS, SOURCE, field_by_hand, linear_dann
from support.closed_forms import jacobian_by_differences, softmax
from support.networks import network

import dann
from dann.adaptation import CDAN, DANN, SourceOnly
from dann.diagnostics import minmax_spectrum, sharpness
from dann.diagnostics.minmax_spectrum import explicit_field, get_players, growth, step_field
from dann.diagnostics.spectrum import spectrum
from dann.schedules import GaninSchedule


def linear_field(matrix):
    tensor = ops.convert_to_tensor(matrix, "float32")
    return lambda x: [ops.sum(tensor * x, axis=1)]


def test_bilinear_game_rotates_with_the_singular_values():
    """The field of the loss `x' B y`, which `x` climbs and `y` descends."""
    matrix = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 3.0]])
    block = np.block([[np.zeros((3, 3)), -matrix], [matrix.T, np.zeros((3, 3))]])
    eigenvalues, _ = spectrum(linear_field(block), [np.ones(6, "float32")])
    values = np.linalg.svd(matrix, compute_uv=False)
    np.testing.assert_allclose(eigenvalues.real, 0, atol=1e-3)
    np.testing.assert_allclose(np.sort(eigenvalues.imag), np.sort([*values, *-values]), atol=1e-3)


def test_large_matrix_has_its_three_ends_found():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(120, 120)) / np.sqrt(120)
    matrix[:2, :2] += [[0, 3], [-3, 0]]
    matrix[2, 2], matrix[3, 3] = 5, -2
    eigenvalues, converged = spectrum(linear_field(matrix), [np.ones(120, "float32")])
    exact = np.linalg.eigvals(matrix)
    for key in (abs, lambda z: z.imag, lambda z: -z.real):
        best = exact[np.argmax([key(value) for value in exact])]
        assert abs(eigenvalues - best).min() < 1e-2 * abs(best)
    assert len(eigenvalues) < 11
    assert converged == 1


class TripleDomainLoss(DANN):
    def method_losses(self, batch, reversal, training):
        terms = super().method_losses(batch, reversal, training)
        return {**terms, "domain/loss": 3 * terms["domain/loss"]}


@pytest.mark.parametrize(
    ("cls", "strength", "heads", "tolerance"),
    [
        (DANN, 0.0, 1, 2e-4),
        (DANN, 0.7, 1, 2e-4),
        (DANN, 0.7, 3, 1e-3),
        # The domain loss of `CDAN` has no gradient for the predictions, but they still move.
        (CDAN, 0.7, 1, 1e-3),
        (TripleDomainLoss, 0.7, 1, 1e-3),
    ],
)
def test_spectrum_matches_the_field_by_hand(cls, strength, heads, tolerance):
    """`heads` is the factor of the learning rate of the heads, by `faster_heads`."""
    model, weights = linear_dann(strength, cls=cls)
    if heads > 1:
        model.compile(dann.optimizers.faster_heads(model, keras.optimizers.SGD(0.05), heads))
        model.optimizer.build(model.trainable_variables)
    triple = 3 if cls is TripleDomainLoss else 1
    factors = np.repeat([1, heads, heads * triple], [6, 4, weights[2].size])
    flat = np.concatenate([weight.ravel() for weight in weights])
    exact = np.linalg.eigvals(
        jacobian_by_differences(lambda w: factors * field_by_hand(w, triple * strength), flat)
    )
    game = minmax_spectrum(model, DATA)
    eigenvalues = game["game/eigenvalues/real"] + 1j * game["game/eigenvalues/imag"]
    assert len(eigenvalues) == len(exact)
    assert game["game/converged"] == 1
    assert max(abs(eigenvalues - value).min() for value in exact) < tolerance
    assert game["game/rotation"] == pytest.approx(abs(exact.imag).max(), abs=tolerance)
    assert (game["game/rotation"] > 0.05) == (strength > 0)
    assert game["game/radius"] == pytest.approx(abs(exact).max(), rel=1e-3)
    assert game["game/min_real_part"] == pytest.approx(exact.real.min(), abs=tolerance)
    assert game["game/step"] == pytest.approx(0.05)
    assert game["game/growth"] == pytest.approx(abs(1 - 0.05 * exact).max(), abs=tolerance / 2)
    attracting = exact[(exact.real > 0) & (abs(exact) > 1e-4)]
    stable_step = np.min(2 * attracting.real / abs(attracting) ** 2)  # where |1 - step mu| = 1
    assert game["game/largest_stable_step"] == pytest.approx(stable_step, rel=1e-3)


@pytest.mark.parametrize(
    ("method", "strength"), [("DANN", GaninSchedule(8)), ("CDAN", 0.7), ("MCD", 0.7), ("MDD", 0.7)]
)
def test_a_step_of_length_one_descends_the_field(method, strength):
    """The field includes regularizers of layers and the strength of the next step."""
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(4, use_bias=False, kernel_regularizer="l2")(inputs)
    model = getattr(dann, method)(keras.Model(inputs, outputs), num_classes=2, strength=strength)
    model.compile(keras.optimizers.SGD(1.0))
    model.fit(*DATA, batch_size=3, verbose=0)
    variables = get_players(model)
    assert len(variables) == len(model.trainable_variables)
    before = [np.array(variable) for variable in variables]
    make_fields = [step_field, explicit_field] if method == "DANN" else [step_field]
    fields = [make_field(model, DATA)(*before) for make_field in make_fields]
    model.fit(*DATA, batch_size=6, verbose=0)
    for field in fields:
        for old, variable, slope in zip(before, variables, field, strict=True):
            np.testing.assert_allclose(slope, old - np.array(variable), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.8, False), (0.8, True)])
def test_growth_matches_the_optimizer_on_a_linear_field(momentum, nesterov):
    matrix = np.array([[0.4, 2.0], [-2.0, 0.4]], "float32")
    optimizer = keras.optimizers.SGD(0.3, momentum=momentum, nesterov=nesterov)
    weight = keras.Variable(np.array([1.0, -0.5], "float32"))
    optimizer.build([weight])
    lengths = []
    for _ in range(60):
        optimizer.apply([ops.convert_to_tensor(matrix @ np.array(weight))])
        lengths.append(np.linalg.norm(np.array(weight)))
    measured = (lengths[-1] / lengths[19]) ** (1 / 40)
    expected = growth(np.linalg.eigvals(matrix), 0.3, momentum, nesterov)
    assert expected == pytest.approx(measured, rel=0.02)


def test_nonlinear_network_matches_central_differences():
    model = SourceOnly(network((3, 2), "backbone", "tanh"), label_head=network((2, 2)))
    model.compile("sgd")

    def slope(flat):
        w, c = flat[:6].reshape(3, 2), flat[6:].reshape(2, 2)
        features = np.tanh(SOURCE @ w)
        residual = (softmax(features @ c) - np.eye(2)[LABELS]) / len(LABELS)
        w_slope = SOURCE.T @ ((residual @ c.T) * (1 - features**2))
        return np.concatenate([w_slope.ravel(), (features.T @ residual).ravel()])

    flat = np.concatenate([np.array(v, float).ravel() for v in model.trainable_variables])
    hessian = jacobian_by_differences(slope, flat)
    measurements = sharpness(model, DATA, samples=300)
    top = np.linalg.eigvalsh((hessian + hessian.T) / 2)[-1]
    assert measurements["sharpness/top_eigenvalue"] == pytest.approx(top, rel=1e-3)
    # Vectors of random signs: Var(z' H z) = 2 sum_{i != j} H_ij^2.
    variance = 2 * (np.sum(hessian**2) - np.sum(np.diag(hessian) ** 2))
    error = measurements["sharpness/trace_error"]
    assert error == pytest.approx(np.sqrt(variance / 300), rel=0.2)
    assert abs(measurements["sharpness/trace"] - np.trace(hessian)) < 4 * error


def test_many_weights_need_no_hessian():
    """One layer of 100 weights under a squared error: the second moment of the inputs."""
    inputs = np.random.default_rng(0).normal(size=(30, 10)).astype("float32")
    model = SourceOnly(network((10, 10), "backbone"), label_head=network((10, 1), "label_head"))
    model.label_head.trainable = False
    model.compile("sgd", loss="mse")
    head = np.array(model.label_head.layers[-1].kernel, float)
    moment = 2 * inputs.T.astype(float) @ inputs / len(inputs)
    expected = np.linalg.eigvalsh(moment)[-1] * np.sum(head**2)
    data = ({"source": inputs, "target": inputs}, np.zeros(30, "float32"))
    measurements = sharpness(model, data, samples=2)
    assert measurements["sharpness/top_eigenvalue"] == pytest.approx(expected, rel=1e-3)
