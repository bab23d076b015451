"""The estimated Frobenius norm, against the norm of the matrix itself."""

import keras
import numpy as np
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, curved
from support.differentiate import as_array
from support.modes import each_mode, in_mode

from dann.autodiff import frobenius_norm, gradients
from dann.gradients import binary_sign

TRUE_NORM = np.sqrt((CURVED_JACOBIAN**2).sum(axis=(1, 2)))


def test_rows_at_right_angles_leave_no_error():
    scales, ones = np.array([3.0, -4.0, 12.0], "float32"), np.ones((2, 3), "float32")
    norm, error = frobenius_norm(lambda x: ops.multiply(x, scales), ones, samples=2)
    np.testing.assert_allclose(norm, [13, 13], rtol=1e-6)
    np.testing.assert_allclose(error, [0, 0], atol=1e-5)


def test_estimate_and_error_are_those_of_the_formula():
    samples = 8
    norm, error = frobenius_norm(curved, INPUTS, samples=samples, seed=5)
    signs = 2 * np.random.default_rng(5).integers(0, 2, (samples, 3, 5)) - 1
    squares = (np.einsum("sbo,boi->sbi", signs, CURVED_JACOBIAN) ** 2).sum(axis=2)
    np.testing.assert_allclose(norm, np.sqrt(squares.mean(axis=0)), rtol=1e-4)
    expected = squares.std(axis=0, ddof=1) / np.sqrt(samples) / (2 * np.asarray(norm))
    np.testing.assert_allclose(error, expected, rtol=1e-3)


def test_the_error_is_the_standard_error_of_the_estimate():
    copies = np.repeat(INPUTS, 400, axis=0)  # independent signs for every copy
    norm, error = (np.asarray(value) for value in frobenius_norm(curved, copies, samples=64))
    squared = (norm**2).reshape(3, 400).mean(axis=1)
    np.testing.assert_allclose(squared, TRUE_NORM**2, rtol=0.02)
    deviations = (norm.reshape(3, 400) - TRUE_NORM[:, None]) / error.reshape(3, 400)
    np.testing.assert_allclose(deviations.std(axis=1), 1, atol=0.2)


def test_a_jacobian_of_zeros_has_norm_and_error_zero():
    norm, error = frobenius_norm(lambda x: ops.zeros_like(x), INPUTS)
    np.testing.assert_array_equal([norm, error], np.zeros((2, 3)))


def test_it_follows_a_backward_pass_that_is_not_the_derivative():
    norm, _ = frobenius_norm(binary_sign, EDGES)
    np.testing.assert_allclose(norm, np.sqrt(EDGES_PASS.sum(axis=1)), rtol=1e-6)


@each_mode
def test_it_can_be_differentiated_by_the_weights(mode):
    # f = W^T x with rows at right angles to the signs' products: the norm is that of W.
    layer = keras.layers.Dense(2, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), layer])
    kernel = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]], "float32")
    layer.set_weights([kernel])

    def slope(x):
        return gradients(lambda w: ops.mean(frobenius_norm(model, x)[0]), layer.weights)[0]

    found = in_mode(slope, mode)(ops.convert_to_tensor(INPUTS[:, :3]))
    np.testing.assert_allclose(np.diag(as_array(found)), [0.6, 0.8], rtol=1e-5)


def test_it_can_be_part_of_a_loss_in_fit():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh")])

    class Penalized(keras.Model):
        def call(self, inputs):
            return network(inputs)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return ops.mean(frobenius_norm(network, x)[0])

    model = Penalized()
    model.network = network
    model.compile(keras.optimizers.SGD(0.1))
    losses = model.fit(np.tile(INPUTS, (3, 1))[:7], np.zeros(7), 2, 4, verbose=0).history["loss"]
    assert losses[0] > losses[1] > losses[2] > losses[3]
