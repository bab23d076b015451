"""Where Keras takes a gradient; the checks join those of `contexts.py`."""

import tempfile

import keras
import numpy as np
import tensorflow as tf
from support.constructions import INPUTS, WEIGHTS
from support.contexts import assert_close, assert_right, context, value_and_gradient


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


@context("Keras `fit`")
def fit(made):
    assert_close(fitted_kernel(made), expected_kernel(made))


@context("Keras `fit`, `jit_compile=True`")
def fit_under_xla(made):
    assert_close(fitted_kernel(made, jit_compile=True), expected_kernel(made))


@context("Keras `fit`, `run_eagerly=True`")
def fit_eagerly(made):
    assert_close(fitted_kernel(made, run_eagerly=True), expected_kernel(made))


def fit_in_mixed_precision(made, policy, tolerance):
    keras.config.set_dtype_policy(policy)
    try:
        assert_close(fitted_kernel(made), expected_kernel(made), tolerance)
    finally:
        keras.config.set_dtype_policy("float32")


@context("Keras `fit`, `mixed_float16`")
def fit_in_float16(made):
    fit_in_mixed_precision(made, "mixed_float16", 1e-3)


@context("Keras `fit`, `mixed_bfloat16`")
def fit_in_bfloat16(made):
    fit_in_mixed_precision(made, "mixed_bfloat16", 1e-2)


@context("`.keras` file, loaded in safe mode")
def keras_file(made):
    with tempfile.TemporaryDirectory() as folder:
        model_around(made).save(f"{folder}/model.keras")
        loaded = keras.models.load_model(f"{folder}/model.keras", safe_mode=True)
    assert_right(made, *value_and_gradient(loaded, tf.constant(INPUTS)))
