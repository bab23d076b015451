"""Jacobians of examples against closed forms."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import layers, ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, WEIGHTS, assert_close, curved, linear
from support.arrays import assert_all_equal
from support.differentiate import parametrize_mode, run_in_mode

from dann.autodiff import batch_jacobian, frobenius_norm, gradients, singular_values
from dann.gradients import binary_sign, override_gradient, reverse_gradient

BACKEND = keras.backend.backend()
RNG = np.random.default_rng(0)


def pooled(x):
    return 3.0 * ops.mean(ops.reshape(x, (2, 1, 2, 2, 2, 1)), axis=(2, 4))  # (batch, 1, 2, 1)


def noisy(x):
    return x * keras.random.normal(x.shape, seed=3)


IMAGES = np.arange(16, dtype="float32").reshape(2, 2, 4, 1)
POOLED_JACOBIAN = np.zeros((2, 1, 2, 1, 2, 4, 1))
POOLED_JACOBIAN[:, :, 0, :, :, :2] = POOLED_JACOBIAN[:, :, 1, :, :, 2:] = 0.75
NOISE = ops.convert_to_numpy(noisy(ops.ones((3, 4))))
NUMBERS = np.array([1.0, 2.0, 3.0], "float32")
POWERS = np.stack([np.ones(3), 2 * NUMBERS], axis=1)
SQUARES_JACOBIAN = np.append(np.diag(2 * INPUTS[0]), np.zeros((1, 4)), axis=0)


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (linear, INPUTS, [WEIGHTS.T] * 3),
        (curved, INPUTS, CURVED_JACOBIAN),
        (pooled, IMAGES, POOLED_JACOBIAN),
        (lambda x: ops.ones((3, 2)), INPUTS, np.zeros((3, 2, 4))),
        (lambda x: ops.sum(x**2, axis=1), INPUTS, 2 * INPUTS),
        (lambda x: x**2, NUMBERS, 2 * NUMBERS),
        (lambda x: ops.stack([x, x**2], axis=1), NUMBERS, POWERS),
        (noisy, INPUTS, NOISE[:, :, None] * np.eye(4)),
        (lambda x: ops.append(x**2, ops.ones((1, 1)), axis=1), INPUTS[:1], [SQUARES_JACOBIAN]),
        (binary_sign, EDGES, EDGES_PASS[:, :, None] * np.eye(4)),
        (lambda x: reverse_gradient(x, strength=0.5), EDGES, [-0.5 * np.eye(4)] * 2),
    ],
)
def test_matches_closed_form_and_differences(function, inputs, expected):
    assert_close(batch_jacobian(function, inputs), expected, atol=2e-5)


def test_float64_stays_float64():
    if BACKEND == "jax":
        pytest.skip("JAX computes in float32")
    tanh = np.tanh(INPUTS.astype("float64"))
    expected = (2 * tanh * (1 - tanh**2))[:, :, None] * np.eye(4)
    result = batch_jacobian(lambda x: ops.tanh(x) ** 2, INPUTS.astype("float64"))
    assert_close(result, expected, 1e-14, 0)


@pytest.mark.tensorflow
@pytest.mark.parametrize("budget", [0, 2**9, 2**25])
def test_parts_keep_the_order_of_outputs(budget, monkeypatch):
    from dann.autodiff import on_tensorflow

    monkeypatch.setattr(on_tensorflow, "_CHUNK_BYTES", budget)
    weights = RNG.normal(size=(4, 7)).astype("float32")
    assert_close(batch_jacobian(lambda x: ops.matmul(x, weights), INPUTS), [weights.T] * 3)


def test_model_runs_in_inference_with_current_weights():
    parts = [layers.Dense(6, "tanh"), layers.BatchNormalization(), layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((4,)), *parts, layers.Dense(3)])
    for _ in range(2):
        kernel, bias, gamma, _, _, variance, out, _ = model.get_weights()
        slopes = (1 - np.tanh(INPUTS @ kernel + bias) ** 2) * gamma / np.sqrt(variance + 1e-3)
        expected = np.einsum("ih,bh,ho->boi", kernel, slopes, out)
        assert_close(batch_jacobian(model, INPUTS), expected, 1e-4, 1e-5)
        model.set_weights([w + 0.1 for w in model.get_weights()])


@pytest.mark.skipif(BACKEND == "torch", reason="no function is compiled: every call runs the model")
def test_model_is_traced_once_per_shape_and_freed():
    calls = []

    class Counted(keras.Model):
        def call(self, inputs):
            calls.append(tuple(inputs.shape))
            return 2.0 * inputs

    model = Counted()
    model(INPUTS)
    batch_jacobian(model, INPUTS)
    num_calls = len(calls)
    batch_jacobian(model, INPUTS + 1)
    assert len(calls) == num_calls
    batch_jacobian(model, INPUTS[:2])
    assert set(calls[num_calls:]) == {(2, 4)}
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_model_is_traced_again_after_changes():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.ReLU()])

    def check():
        matrix = ops.convert_to_numpy(model.layers[0].kernel).T
        active = (INPUTS @ matrix.T > 0) | (len(model.layers) == 1)
        assert_close(batch_jacobian(model, INPUTS), active[:, :, None] * matrix)

    check()
    model.pop()  # a layer without variables
    check()
    model.pop()
    model.add(layers.Dense(3))
    model.add(layers.ReLU())
    check()


def mix_examples(x):
    return ops.concatenate([x[:-1], x[-1:] + 0.01 * x[:1]], axis=0)


def test_dependent_examples_are_refused_without_state_change():
    norm, dropout = layers.BatchNormalization(), layers.Dropout(0.5)
    norm.build((None, 4))
    before = [w.copy() for w in norm.get_weights()]
    for function in (mix_examples, norm, dropout):
        settings = {} if function is mix_examples else {"training": True}
        for derivative in (batch_jacobian, frobenius_norm, lambda f, x: singular_values(f, x, 1)):
            with pytest.raises(ValueError, match="one by one"):
                derivative(lambda x, f=function, s=settings: f(x, **s), INPUTS)
    assert_all_equal(before, norm.get_weights())


@parametrize_mode
def test_result_can_be_differentiated_when_compiled(mode):
    def differentiate_sum(x):
        return gradients(lambda x: ops.sum(batch_jacobian(lambda x: x**3, x)), [x])[0]

    assert_close(run_in_mode(differentiate_sum, mode)(ops.convert_to_tensor(INPUTS)), 6 * INPUTS)


# Overridden gradients that are not linear in the upstream gradient.
POINTS = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]], "float32")
MATRIX = np.random.default_rng(1).normal(size=(2, 12)).astype("float32")


def _guide(upstream, x):
    return ops.where((x > 0) & (upstream > 0), upstream, ops.zeros_like(upstream))


def _clip_norm(upstream, x):
    return upstream / ops.maximum(1.0, ops.norm(upstream, axis=-1, keepdims=True))


CLIPPED_ROWS = MATRIX.T / np.maximum(1.0, np.linalg.norm(MATRIX.T, axis=1, keepdims=True))
# By name: the function, and the Jacobian of each example, whose rows are backward passes.
PASSES = {
    "guided": (override_gradient(ops.relu, _guide), MATRIX.T.clip(0) * (POINTS > 0)[:, None]),
    "clipped": (
        override_gradient(lambda x: x, lambda upstream, x: ops.clip(upstream, -1.0, 1.0)),
        [np.clip(MATRIX.T, -1, 1)] * 3,
    ),
    "clipped norm": (override_gradient(lambda x: x, _clip_norm), [CLIPPED_ROWS] * 3),
}
if BACKEND != "jax":  # JAX does not detect an added constant
    shift = override_gradient(lambda x: x, lambda upstream, x: upstream + 1e-3)
    PASSES["added constant"] = shift, [MATRIX.T + 1e-3] * 3


def multiply(function, weights=MATRIX):
    return lambda x: ops.matmul(function(x), ops.convert_to_tensor(weights))


@parametrize_mode
@pytest.mark.parametrize("name", PASSES)
def test_rows_are_backward_passes_for_many_outputs(name, mode):
    function = multiply(PASSES[name][0])
    result = run_in_mode(lambda x: batch_jacobian(function, x), mode)(ops.convert_to_tensor(POINTS))
    assert_close(result, PASSES[name][1])


@pytest.mark.parametrize(
    "measure", [lambda f: singular_values(f, POINTS, 2), lambda f: frobenius_norm(f, POINTS)]
)
@pytest.mark.parametrize("name", PASSES)
def test_measures_of_a_matrix_are_refused(name, measure):
    with pytest.raises(ValueError, match="linear in the upstream gradient.*batch_jacobian"):
        measure(multiply(PASSES[name][0]))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_clipping_is_detected_for_equal_weights(scale):
    weights = np.full((2, 12), scale, "float32")
    outputs = multiply(PASSES["clipped norm"][0], weights)
    assert_close(batch_jacobian(outputs, POINTS), np.full((3, 12, 2), 0.5**0.5), atol=0)
    with pytest.raises(ValueError, match="linear in the upstream gradient"):
        singular_values(outputs, POINTS, 1)


@pytest.mark.parametrize("scale", [1.0, -0.5])
def test_linear_override_keeps_its_singular_values(scale):
    function = override_gradient(lambda x: x, lambda upstream, x: scale * upstream)
    values = singular_values(multiply(function), POINTS, 2)
    expected = abs(scale) * np.linalg.svd(MATRIX, compute_uv=False)
    assert_close(values, [expected] * 3, 1e-4, 0)
