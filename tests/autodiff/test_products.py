"""Products with Jacobians and Hessians: closed forms, differences, custom gradients."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, WEIGHTS, close, curved, linear
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
    def both(x, u, v):
        return vjp(curved, [x], [u]), jvp(curved, [x], [v])

    (outputs, (pulled,)), (same, pushed) = run_in_mode(both, mode)(*tensors(INPUTS, U, V))
    for one in (outputs, same):
        close(one, ops.convert_to_numpy(curved(INPUTS)))
    close(pulled, np.einsum("boi,bo->bi", CURVED_JACOBIAN, U), 1e-4, 1e-5)
    close(pushed, np.einsum("boi,bi->bo", CURVED_JACOBIAN, V), 1e-4, 1e-5)


def test_tangents_of_several_inputs_and_outputs_are_nested_like_the_outputs():
    def function(x, y):
        return {"product": x * y, "sum": ops.sum(x), "constant": ops.ones((2,))}

    outputs, tangents = jvp(function, [INPUTS, V], [V, INPUTS])
    close(outputs["product"], INPUTS * V)
    close(tangents["product"], V**2 + INPUTS**2)
    close(tangents["sum"], V.sum())
    close(tangents["constant"], [0, 0])


@parametrize_mode
def test_products_follow_a_backward_pass_that_is_not_the_derivative(mode):
    def both(x, v):
        reverse = lambda x: reverse_gradient(x, strength=0.5)  # noqa: E731
        return [
            product
            for function in (reverse, binary_sign)
            for product in (jvp(function, [x], [v])[1], vjp(function, [x], [v])[1][0])
        ]

    upstream = RNG.normal(size=EDGES.shape).astype("float32")
    found = run_in_mode(both, mode)(*tensors(EDGES, upstream))
    for product, slope in zip(found, [-0.5, -0.5, EDGES_PASS, EDGES_PASS], strict=True):
        close(product, slope * upstream)


@parametrize_mode
def test_hessian_products_match_the_closed_form_across_arguments(mode):
    def products(x, y, v, w):
        return hvp(lambda x, y: ops.sum(x**3 * y), [x, y], [v, w])

    x, y, v, w = (RNG.normal(size=(2, 3)).astype("float32") for _ in range(4))
    of_x, of_y = run_in_mode(products, mode)(*tensors(x, y, v, w))
    close(of_x, 6 * x * y * v + 3 * x**2 * w, 1e-4, 1e-5)
    close(of_y, 3 * x**2 * v, 1e-4, 1e-5)


@parametrize_mode
def test_products_count_a_tensor_given_twice_as_two_arguments(mode):
    def every(x, v):
        zeros = ops.zeros_like(v)
        _, pulled = vjp(lambda a, b: a * b, [x, x], [v])
        _, pushed = jvp(lambda a, b: a * b, [x, x], [v, zeros])
        bent = hvp(lambda a, b: ops.sum(a * b), [x, x], [v, zeros])
        of_second = gradients(lambda a, b: a**2 * b, [x, x], stop_gradients=[0])
        return pulled, pushed, bent, jacobian(lambda a: ops.sum(a * x), x), of_second

    found = keras.tree.flatten(run_in_mode(every, mode)(*tensors(INPUTS, V)))
    zeros, product = np.zeros_like(V), INPUTS * V
    expected = product, product, product, zeros, V, INPUTS, zeros, INPUTS**2
    for one, wanted in zip(found, expected, strict=True):
        close(one, wanted)


@parametrize_mode
def test_the_jacobian_holds_every_output_by_every_input(mode):
    matrices = run_in_mode(lambda x: (jacobian(linear, x), jacobian(curved, x)), mode)
    of_linear, of_curved = matrices(ops.convert_to_tensor(INPUTS))
    close(of_linear, np.einsum("ab,io->aobi", np.eye(3), WEIGHTS))
    close(of_curved, np.einsum("ab,aoi->aobi", np.eye(3), CURVED_JACOBIAN), atol=1e-4)


def test_the_jacobian_shows_how_examples_affect_each_other_and_is_zero_of_a_constant():
    close(jacobian(lambda x: x - ops.mean(x, axis=0), INPUTS[:, 0]), np.eye(3) - 1 / 3)
    close(jacobian(lambda x: ops.ones((2,)), INPUTS), np.zeros((2, 3, 4)))


def test_jacobians_by_several_arguments_come_as_a_list():
    of_x, of_y = jacobian(lambda x, y: ops.sum(x * y, axis=1), [INPUTS, V])
    for found, expected in ((of_x, V), (of_y, INPUTS)):
        close(ops.einsum("aai->ai", found), expected)


@pytest.mark.tensorflow
def test_jacobian_of_an_unknown_batch_size():
    import tensorflow as tf

    signature = [tf.TensorSpec([None, 4])]
    traced = tf.function(lambda x: jacobian(lambda x: x**2, x), input_signature=signature)
    for x in (INPUTS, INPUTS[:1]):
        slopes = (2 * x[..., None] * np.eye(4))[:, :, None] * np.eye(len(x))[:, None, :, None]
        close(traced(x), slopes)
