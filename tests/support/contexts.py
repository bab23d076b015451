"""Where TensorFlow takes a gradient: each context compares a construction with its closed form.

A context raises `AssertionError` where value or gradient are wrong.
"""

import numpy as np
import tensorflow as tf
from support.constructions import INPUTS, WEIGHTS, loss

CONTEXTS = {}


def context(description):
    def add(check):
        CONTEXTS[description] = check
        return check

    return add


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


def second_gradient(function, inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        _, gradient = value_and_gradient(function, inputs)
    return tape.gradient(gradient, inputs)


def in_graph(function, **arguments):
    return tf.function(function, autograph=False, **arguments)


@context("eager")
def eager(made):
    assert_right(made, *value_and_gradient(made.function, tf.constant(INPUTS)))


def tape_inside(made, **arguments):
    compiled = in_graph(lambda inputs: value_and_gradient(made.function, inputs), **arguments)
    assert_right(made, *compiled(tf.constant(INPUTS)))


def tape_outside(made, **arguments):
    compiled = in_graph(made.function, **arguments)
    assert_right(made, *value_and_gradient(compiled, tf.constant(INPUTS)))


@context("`tf.function`, tape inside")
def function_tape_inside(made):
    tape_inside(made)


@context("`tf.function`, tape outside")
def function_tape_outside(made):
    tape_outside(made)


@context("XLA, tape inside")
def xla_tape_inside(made):
    tape_inside(made, jit_compile=True)


@context("XLA, tape outside")
def xla_tape_outside(made):
    tape_outside(made, jit_compile=True)


@context("`tf.function`, unknown shape")
def unknown_shape(made):
    tape_inside(made, input_signature=[tf.TensorSpec([None, None])])


@context("`tf.function`, unknown rank")
def unknown_rank(made):
    tape_inside(made, input_signature=[tf.TensorSpec(None)])


@context("`tf.config.run_functions_eagerly(True)`")
def run_functions_eagerly(made):
    tf.config.run_functions_eagerly(True)
    try:
        eager(made)
        tape_inside(made)
    finally:
        tf.config.run_functions_eagerly(False)


@context("`tf.gradients` in `tf.function`")
def tf_gradients(made):
    def differentiate(inputs):
        value = made.function(inputs)
        return value, tf.gradients(loss(value), inputs)[0]

    assert_right(made, *in_graph(differentiate)(tf.constant(INPUTS)))


@context("`tf.compat.v1` graph and `tf.gradients`")
def version_one_graph(made):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = tf.compat.v1.placeholder(tf.float32, INPUTS.shape)
        value = made.function(inputs)
        gradient = tf.gradients(loss(value), inputs)[0]
        assert_right(made, *session.run([value, gradient], {inputs: INPUTS}))


@context("inside `tf.cond`")
def conditional(made):
    def branch(inputs):
        positive = tf.reduce_sum(inputs) > -100.0
        return tf.cond(positive, lambda: made.function(inputs), lambda: inputs)

    compiled = in_graph(lambda inputs: value_and_gradient(branch, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))


@context("inside `tf.while_loop`")
def while_loop(made):
    def once(inputs):
        def step(count, values):
            return count + 1, made.function(values)

        return tf.while_loop(lambda count, values: count < 1, step, (0, inputs))[1]

    compiled = in_graph(lambda inputs: value_and_gradient(once, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))


@context("inside `tf.map_fn`")
def map_fn(made):
    mapped = in_graph(lambda inputs: tf.map_fn(made.function, inputs))
    assert_right(made, *value_and_gradient(mapped, tf.constant(INPUTS)))


@context("inside `tf.recompute_grad`")
def recompute_grad(made):
    recomputed = tf.recompute_grad(made.function)
    assert_right(made, *value_and_gradient(recomputed, tf.constant(INPUTS)))
    compiled = in_graph(lambda inputs: value_and_gradient(recomputed, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))


@context("nested tapes (second order)")
def nested_tapes(made):
    assert_close(second_gradient(made.function, tf.constant(INPUTS)), made.second_gradient)


@context("nested tapes in `tf.function`")
def nested_tapes_in_function(made):
    compiled = in_graph(lambda inputs: second_gradient(made.function, inputs))
    assert_close(compiled(tf.constant(INPUTS)), made.second_gradient)


@context("nested tapes under XLA")
def nested_tapes_under_xla(made):
    compiled = in_graph(lambda inputs: second_gradient(made.function, inputs), jit_compile=True)
    assert_close(compiled(tf.constant(INPUTS)), made.second_gradient)


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


@context("`jacobian`")
def jacobian_by_pfor(made):
    jacobian(made, pfor=True)


@context("`jacobian` without pfor")
def jacobian_by_while(made):
    jacobian(made, pfor=False)


@context("`batch_jacobian` in `tf.function`")
def batch_jacobian_by_pfor(made):
    batch_jacobian(made, pfor=True)


@context("`batch_jacobian` without pfor")
def batch_jacobian_by_while(made):
    batch_jacobian(made, pfor=False)


@context("forward mode by two backward passes")
def double_backward(made):
    inputs, upstream = tf.constant(INPUTS), tf.ones(INPUTS.shape)
    with tf.GradientTape() as outer:
        outer.watch(upstream)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = made.function(inputs)
        pulled_back = tape.gradient(outputs, inputs, upstream)
    assert_close(outer.gradient(pulled_back, upstream, WEIGHTS), made.slope * WEIGHTS)


@context("`jacobian` of a gradient (Hessian)")
def hessian(made):
    inputs = tf.constant(INPUTS)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        _, gradient = value_and_gradient(made.function, inputs)
    size = INPUTS.size
    seen = tape.jacobian(gradient, inputs)
    assert_close(tf.reshape(seen, (size, size)), np.diag(made.second_gradient.ravel()))


def forward_mode(function, inputs):
    with tf.autodiff.ForwardAccumulator(inputs, tf.constant(WEIGHTS)) as accumulator:
        outputs = function(inputs)
    return accumulator.jvp(outputs)


@context("`ForwardAccumulator`")
def forward_accumulator(made):
    seen = forward_mode(made.function, tf.constant(INPUTS))
    assert_close(seen, made.slope * WEIGHTS)


@context("`ForwardAccumulator` in `tf.function`")
def forward_accumulator_in_function(made):
    compiled = in_graph(lambda inputs: forward_mode(made.function, inputs))
    assert_close(compiled(tf.constant(INPUTS)), made.slope * WEIGHTS)


@context("`vectorized_map`, tape inside")
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


@context("`vectorized_map`, tape outside")
def vectorized_map_tape_outside(made):
    def mapped(inputs):
        return tf.vectorized_map(made.function, inputs)

    assert_right(made, *value_and_gradient(mapped, tf.constant(INPUTS)))


@context("`vectorized_map`, tape outside, in `tf.function`")
def vectorized_map_in_function(made):
    def mapped(inputs):
        return tf.vectorized_map(made.function, inputs)

    compiled = in_graph(lambda inputs: value_and_gradient(mapped, inputs))
    assert_right(made, *compiled(tf.constant(INPUTS)))
