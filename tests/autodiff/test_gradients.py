"""Gradients against closed forms, and what is refused before it goes wrong."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from maps import close
from support.differentiate import as_array
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import batch_jacobian, gradients, hvp, jacobian, jvp

X = np.array([[-1.5, 0.0, 2.0], [0.5, 1.0, -3.0]], "float32")
Y = np.array([[2.0, 1.0, -1.0], [0.0, 4.0, 0.5]], "float32")


@parametrize_mode
def test_gradients_match_the_closed_form_for_every_argument(mode):
    def both(x, y):
        return gradients(lambda x, y: ops.sum(x**3 * y), [x, y])

    of_x, of_y = run_in_mode(both, mode)(ops.convert_to_tensor(X), ops.convert_to_tensor(Y))
    close(of_x, 3 * X**2 * Y)
    close(of_y, X**3)


@parametrize_mode
def test_gradients_can_be_differentiated_again(mode):
    def second(x):
        slope = lambda x: gradients(lambda x: ops.sum(x**3), [x])[0]  # noqa: E731
        return gradients(lambda x: slope(x) ** 2, [x])[0]

    close(run_in_mode(second, mode)(ops.convert_to_tensor(X)), 36 * X**3)


def test_an_argument_that_does_not_matter_has_zeros_or_none_where_the_backend_knows():
    def constant(x, y):
        return ops.sum(x)

    of_x, of_y = gradients(constant, [X, Y])
    close(of_x, np.ones_like(X))
    close(of_y, np.zeros_like(Y))
    if keras.backend.backend() == "jax":
        with pytest.raises(NotImplementedError, match="'none'"):
            gradients(constant, [X, Y], unconnected_gradients="none")
    else:
        assert gradients(constant, [X, Y], unconnected_gradients="none")[1] is None


@parametrize_mode
def test_several_outputs_are_weighted_by_their_upstream_gradients(mode):
    def both(x, u):
        return gradients(lambda x: {"b": ops.sum(x, axis=0), "a": x**2}, [x], [u, u[0]])[0]

    inputs = [ops.convert_to_tensor(value) for value in (X, Y)]
    close(run_in_mode(both, mode)(*inputs), 2 * X * Y + Y[0])
    close(gradients(lambda x: [x**2, ops.sum(x)], [X])[0], 2 * X + 1)  # which are summed


def test_a_model_of_several_inputs_takes_them_as_a_list_and_runs_in_inference():
    parts = [keras.Input((3,)), keras.Input((3,))]
    model = keras.Model(parts, layers.Dropout(0.5)(layers.Multiply()(parts)))
    of_first, of_second = gradients(model, [X, Y])
    close(of_first, Y)
    close(of_second, X)


@parametrize_mode
def test_a_variable_counts_as_argument_and_where_the_function_reads_it(mode):
    # y = s w^T x with w read by the layer, and s = sum(w) taken as the argument.
    layer = layers.Dense(1, use_bias=False)
    layer.build((None, 3))
    (w,) = layer.weights
    direction = np.array([[1.0], [2.0], [-1.0]], "float32")

    def of_both(x):
        def by_argument_and_layer(value):
            return ops.sum(value) * ops.sum(layer(x))

        reads = lambda value: ops.sum(layer(x))  # noqa: E731
        return (
            gradients(reads, layer.weights),
            gradients(by_argument_and_layer, [w]),
            jvp(by_argument_and_layer, [w], [direction])[1],
            hvp(by_argument_and_layer, [w], [direction]),
            jacobian(reads, [w]),
        )

    found = run_in_mode(of_both, mode)(ops.convert_to_tensor(X))
    slope, value = X.sum(axis=0)[:, None], as_array(w.value)
    full = (slope * value).sum() + value.sum() * slope
    bent = (slope * direction).sum() + direction.sum() * slope
    expected = slope, full, (full * direction).sum(), bent, slope
    for one, wanted in zip(found, expected, strict=True):
        close(keras.tree.flatten(one)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.tensorflow
def test_a_loaded_recurrent_network_has_gradients(tmp_path):
    import tensorflow as tf

    model = keras.Sequential([keras.Input((3, 2)), layers.LSTM(4), layers.Dense(1)])
    model.export(tmp_path, verbose=False)
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(2, 3, 2)
    loaded = tf.saved_model.load(str(tmp_path))
    close(gradients(loaded.serve, [x])[0], gradients(model, [x])[0])
    close(gradients(lambda x: loaded.serve(x)[:, 0], [x])[0], batch_jacobian(model, x)[:, 0])
    for function in (batch_jacobian, jacobian):
        with pytest.raises(NotImplementedError, match="stack `gradients"):
            function(loaded.serve, x)


@pytest.mark.tensorflow
def test_a_variable_of_tensorflow_or_one_that_is_not_trainable_is_watched_too():
    import tensorflow as tf

    fixed = keras.Variable([1.0, 2.0], trainable=False)
    for variable in (fixed, tf.Variable([1.0, 2.0], trainable=False)):
        compiled = tf.function(lambda v=variable: ops.sum(v * v), autograph=False)
        close(gradients(lambda value, f=compiled: f(), [variable])[0], [2.0, 4.0])
