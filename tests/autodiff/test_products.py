"""Products with Jacobians and Hessians against closed forms and differences."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, WEIGHTS, assert_close, curved, linear
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import gradients, hvp, jacobian, jvp, vjp
from dann.gradients import binary_sign, reverse_gradient

RNG = np.random.default_rng(1)
U = RNG.normal(size=(3, 5)).astype("float32")
V = RNG.normal(size=(3, 4)).astype("float32")


def tensors(*values):
    return [ops.convert_to_tensor(value) for value in values]


@parametrize_mode
def test_products_with_the_jacobian_match_differences(mode):
    def products(x, u, v):
        return vjp(curved, [x], [u]), jvp(curved, [x], [v])

    results = run_in_mode(products, mode)(*tensors(INPUTS, U, V))
    (vjp_outputs, (pulled,)), (jvp_outputs, pushed) = results
    assert_close(vjp_outputs, ops.convert_to_numpy(curved(INPUTS)))
    assert_close(jvp_outputs, ops.convert_to_numpy(curved(INPUTS)))
    assert_close(pulled, np.einsum("boi,bo->bi", CURVED_JACOBIAN, U), 1e-4, 1e-5)
    assert_close(pushed, np.einsum("boi,bi->bo", CURVED_JACOBIAN, V), 1e-4, 1e-5)


@parametrize_mode
def test_products_follow_custom_backward_passes(mode):
    def products(x, v):
        reverse = lambda x: reverse_gradient(x, strength=0.5)  # noqa: E731
        return [
            product
            for function in (reverse, binary_sign)
            for product in (jvp(function, [x], [v])[1], vjp(function, [x], [v])[1][0])
        ]

    upstream = RNG.normal(size=EDGES.shape).astype("float32")
    results = run_in_mode(products, mode)(*tensors(EDGES, upstream))
    for product, slope in zip(results, [-0.5, -0.5, EDGES_PASS, EDGES_PASS], strict=True):
        assert_close(product, slope * upstream)


@parametrize_mode
def test_hessian_products_match_the_closed_form(mode):
    def products(x, y, v, w):
        return hvp(lambda x, y: ops.sum(x**3 * y), [x, y], [v, w])

    x, y, v, w = (RNG.normal(size=(2, 3)).astype("float32") for _ in range(4))
    x_product, y_product = run_in_mode(products, mode)(*tensors(x, y, v, w))
    assert_close(x_product, 6 * x * y * v + 3 * x**2 * w, 1e-4, 1e-5)
    assert_close(y_product, 3 * x**2 * v, 1e-4, 1e-5)


@parametrize_mode
def test_tensor_passed_twice_counts_as_two_arguments(mode):
    def products(x, v):
        zeros = ops.zeros_like(v)
        _, pulled = vjp(lambda a, b: a * b, [x, x], [v])
        _, pushed = jvp(lambda a, b: a * b, [x, x], [v, zeros])
        hessian_product = hvp(lambda a, b: ops.sum(a * b), [x, x], [v, zeros])
        partial = gradients(lambda a, b: a**2 * b, [x, x], stop_gradients=[0])
        return pulled, pushed, hessian_product, jacobian(lambda a: ops.sum(a * x), x), partial

    results = keras.tree.flatten(run_in_mode(products, mode)(*tensors(INPUTS, V)))
    zeros, product = np.zeros_like(V), INPUTS * V
    expected = product, product, product, zeros, V, INPUTS, zeros, INPUTS**2
    for result, array in zip(results, expected, strict=True):
        assert_close(result, array)


@parametrize_mode
def test_jacobian_has_every_output_by_every_input(mode):
    matrices = run_in_mode(lambda x: (jacobian(linear, x), jacobian(curved, x)), mode)
    linear_matrix, curved_matrix = matrices(ops.convert_to_tensor(INPUTS))
    assert_close(linear_matrix, np.einsum("ab,io->aobi", np.eye(3), WEIGHTS))
    assert_close(curved_matrix, np.einsum("ab,aoi->aobi", np.eye(3), CURVED_JACOBIAN), atol=1e-4)


def test_jacobian_across_examples_and_of_a_constant():
    assert_close(jacobian(lambda x: x - ops.mean(x, axis=0), INPUTS[:, 0]), np.eye(3) - 1 / 3)
    assert_close(jacobian(lambda x: ops.ones((2,)), INPUTS), np.zeros((2, 3, 4)))


def test_jacobians_by_several_arguments_are_a_list():
    x_jacobian, y_jacobian = jacobian(lambda x, y: ops.sum(x * y, axis=1), [INPUTS, V])
    assert_close(ops.einsum("aai->ai", x_jacobian), V)
    assert_close(ops.einsum("aai->ai", y_jacobian), INPUTS)


@pytest.mark.tensorflow
def test_jacobian_of_an_unknown_batch_size():
    import tensorflow as tf

    signature = [tf.TensorSpec([None, 4])]
    traced = tf.function(lambda x: jacobian(lambda x: x**2, x), input_signature=signature)
    for x in (INPUTS, INPUTS[:1]):
        slopes = (2 * x[..., None] * np.eye(4))[:, :, None] * np.eye(len(x))[:, None, :, None]
        assert_close(traced(x), slopes)
