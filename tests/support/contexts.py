"""Where TensorFlow and Keras take a gradient: each context compares it with the closed form.

A context raises `AssertionError` where value or gradient are wrong.
"""

import tempfile
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from support.constructions import INPUTS, WEIGHTS, loss


def assert_close(seen, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(seen, "float64"), expected, tolerance, tolerance)


def assert_right(made, value, gradient):
    assert_close(value, made.value)
    assert_close(gradient, made.gradient)


def value_and_gradient(function, inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(inputs)
        total = loss(value)
    return value, tape.gradient(total, inputs)


def nested_tapes(made, compiled=lambda function: function):
    def second_gradient(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            _, gradient = value_and_gradient(made.function, inputs)
        return tape.gradient(gradient, inputs)

    assert_close(compiled(second_gradient)(tf.constant(INPUTS)), made.second_gradient)


def in_graph(function, **arguments):
    return tf.function(function, autograph=False, **arguments)


def eager(made):
    assert_right(made, *value_and_gradient(made.function, tf.constant(INPUTS)))


def tape_inside(made, **arguments):
    compiled = in_graph(lambda inputs: value_and_gradient(made.function, inputs), **arguments)
    assert_right(made, *compiled(tf.constant(INPUTS)))


def tape_outside(made, **arguments):
    compiled = in_graph(made.function, **arguments)
    assert_right(made, *value_and_gradient(compiled, tf.constant(INPUTS)))


def run_functions_eagerly(made):
    tf.config.run_functions_eagerly(True)
    try:
        eager(made)
        tape_inside(made)
    finally:
        tf.config.run_functions_eagerly(False)


def tf_gradients(made):
    def differentiate(inputs):
        value = made.function(inputs)
        return value, tf.gradients(loss(value), inputs)[0]

    assert_right(made, *in_graph(differentiate)(tf.constant(INPUTS)))


def version_one_graph(made):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = tf.compat.v1.placeholder(tf.float32, INPUTS.shape)
        value = made.function(inputs)
        gradient = tf.gradients(loss(value), inputs)[0]
        assert_right(made, *session.run([value, gradient], {inputs: INPUTS}))


def conditional(made):
    def branch(inputs):
        positive = tf.reduce_sum(inputs) > -100.0
        return tf.cond(positive, lambda: made.function(inputs), lambda: inputs)

    compiled = in_graph(lambda inputs: value_and_gradient(branch, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))


def while_loop(made):
    def once(inputs):
        def step(count, values):
            return count + 1, made.function(values)

        return tf.while_loop(lambda count, values: count < 1, step, (0, inputs))[1]

    compiled = in_graph(lambda inputs: value_and_gradient(once, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))


def map_fn(made):
    mapped = in_graph(lambda inputs: tf.map_fn(made.function, inputs))
    assert_right(made, *value_and_gradient(mapped, tf.constant(INPUTS)))


def recompute_grad(made):
    recomputed = tf.recompute_grad(made.function)
    assert_right(made, *value_and_gradient(recomputed, tf.constant(INPUTS)))
    compiled = in_graph(lambda inputs: value_and_gradient(recomputed, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))


def jacobian(made, pfor):
    inputs = tf.constant(INPUTS)
    with tf.GradientTape(persistent=not pfor) as tape:
        tape.watch(inputs)
        outputs = made.function(inputs)
    size = INPUTS.size
    seen = tape.jacobian(outputs, inputs, experimental_use_pfor=pfor)
    assert_close(tf.reshape(seen, (size, size)), np.diag(made.slope.ravel()))


def batch_jacobian(made, pfor):
    def differentiate(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = made.function(inputs)
        return tape.batch_jacobian(outputs, inputs, experimental_use_pfor=pfor)

    expected = [np.diag(row) for row in made.slope]
    assert_close(in_graph(differentiate)(tf.constant(INPUTS)), expected)


def double_backward(made):
    inputs, upstream = tf.constant(INPUTS), tf.ones(INPUTS.shape)
    with tf.GradientTape() as outer:
        outer.watch(upstream)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = made.function(inputs)
        pulled_back = tape.gradient(outputs, inputs, upstream)
    assert_close(outer.gradient(pulled_back, upstream, WEIGHTS), made.slope * WEIGHTS)


def hessian(made):
    inputs = tf.constant(INPUTS)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        _, gradient = value_and_gradient(made.function, inputs)
    size = INPUTS.size
    seen = tape.jacobian(gradient, inputs)
    assert_close(tf.reshape(seen, (size, size)), np.diag(made.second_gradient.ravel()))


def forward_accumulator(made, compiled=lambda function: function):
    def forward_mode(inputs):
        with tf.autodiff.ForwardAccumulator(inputs, tf.constant(WEIGHTS)) as accumulator:
            outputs = made.function(inputs)
        return accumulator.jvp(outputs)

    assert_close(compiled(forward_mode)(tf.constant(INPUTS)), made.slope * WEIGHTS)


def vectorized_map_tape_inside(made):
    def row(arguments):
        inputs, weights = arguments
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = made.function(inputs)
            total = loss(value, weights)
        return value, tape.gradient(total, inputs)

    rows = (tf.constant(INPUTS), tf.constant(WEIGHTS))
    assert_right(made, *tf.vectorized_map(row, rows))


def vectorized_map_tape_outside(made, compiled=lambda function: function):
    def differentiate(inputs):
        mapped = partial(tf.vectorized_map, made.function)
        return value_and_gradient(mapped, inputs)

    assert_right(made, *compiled(differentiate)(tf.constant(INPUTS)))


def weighted_sum(weights, outputs):
    return keras.ops.sum(weights * outputs, axis=-1)


def model_around(made):
    """A model whose first kernel is the identity, so that INPUTS reach the layer as they are."""
    size = INPUTS.shape[1]
    first = keras.layers.Dense(size, use_bias=False, kernel_initializer="identity")
    return keras.Sequential([keras.Input((size,)), first, made.make_layer()])


def fitted_kernel(made, **compiled):
    """The first kernel after one step of gradient descent at the learning rate 1."""
    model = model_around(made)
    model.compile(keras.optimizers.SGD(1.0), weighted_sum, **compiled)
    model.fit(INPUTS, WEIGHTS, batch_size=len(INPUTS), shuffle=False, verbose=0)
    return np.asarray(model.layers[0].kernel)


def expected_kernel(made):
    """I - X' (w s) / n, for the loss mean over n rows of sum w y."""
    return np.eye(INPUTS.shape[1]) - INPUTS.T @ (WEIGHTS * made.slope) / len(INPUTS)


def fit(made, **compiled):
    assert_close(fitted_kernel(made, **compiled), expected_kernel(made))


def fit_in_mixed_precision(made, policy, tolerance):
    keras.config.set_dtype_policy(policy)
    try:
        assert_close(fitted_kernel(made), expected_kernel(made), tolerance)
    finally:
        keras.config.set_dtype_policy("float32")


def keras_file(made):
    with tempfile.TemporaryDirectory() as folder:
        model_around(made).save(f"{folder}/model.keras")
        loaded = keras.models.load_model(f"{folder}/model.keras", safe_mode=True)
    assert_right(made, *value_and_gradient(loaded, tf.constant(INPUTS)))


CONTEXTS = {
    "eager": eager,
    "`tf.function`, tape inside": tape_inside,
    "`tf.function`, tape outside": tape_outside,
    "XLA, tape inside": partial(tape_inside, jit_compile=True),
    "XLA, tape outside": partial(tape_outside, jit_compile=True),
    "`tf.function`, unknown shape": partial(
        tape_inside, input_signature=[tf.TensorSpec([None, None])]
    ),
    "`tf.function`, unknown rank": partial(tape_inside, input_signature=[tf.TensorSpec(None)]),
    "`tf.config.run_functions_eagerly(True)`": run_functions_eagerly,
    "`tf.gradients` in `tf.function`": tf_gradients,
    "`tf.compat.v1` graph and `tf.gradients`": version_one_graph,
    "inside `tf.cond`": conditional,
    "inside `tf.while_loop`": while_loop,
    "inside `tf.map_fn`": map_fn,
    "inside `tf.recompute_grad`": recompute_grad,
    "nested tapes (second order)": nested_tapes,
    "nested tapes in `tf.function`": partial(nested_tapes, compiled=in_graph),
    "nested tapes under XLA": partial(nested_tapes, compiled=partial(in_graph, jit_compile=True)),
    "`jacobian`": partial(jacobian, pfor=True),
    "`jacobian` without pfor": partial(jacobian, pfor=False),
    "`batch_jacobian` in `tf.function`": partial(batch_jacobian, pfor=True),
    "`batch_jacobian` without pfor": partial(batch_jacobian, pfor=False),
    "forward mode by two backward passes": double_backward,
    "`jacobian` of a gradient (Hessian)": hessian,
    "`ForwardAccumulator`": forward_accumulator,
    "`ForwardAccumulator` in `tf.function`": partial(forward_accumulator, compiled=in_graph),
    "`vectorized_map`, tape inside": vectorized_map_tape_inside,
    "`vectorized_map`, tape outside": vectorized_map_tape_outside,
    "`vectorized_map`, tape outside, in `tf.function`": partial(
        vectorized_map_tape_outside, compiled=in_graph
    ),
    "Keras `fit`": fit,
    "Keras `fit`, `jit_compile=True`": partial(fit, jit_compile=True),
    "Keras `fit`, `run_eagerly=True`": partial(fit, run_eagerly=True),
    "Keras `fit`, `mixed_float16`": partial(
        fit_in_mixed_precision, policy="mixed_float16", tolerance=1e-3
    ),
    "Keras `fit`, `mixed_bfloat16`": partial(
        fit_in_mixed_precision, policy="mixed_bfloat16", tolerance=1e-2
    ),
    "`.keras` file, loaded in safe mode": keras_file,
}
