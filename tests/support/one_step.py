"""One training step of a linear network, to hold against a method's formula in NumPy."""

import keras
import numpy as np
import pytest
from support.modes import EAGER

RNG = np.random.default_rng(1)
SOURCE = RNG.normal(size=(5, 3))
TARGET = RNG.normal(size=(5, 3)) + 0.5
LABELS = np.array([0, 1, 2, 1, 0])
PAIR = {"source": SOURCE, "target": TARGET}
STRENGTH = 0.7
# XLA compiles for long. The tests of the layers, and all on JAX, run it by default.
MODES = (EAGER, "graph", pytest.param("xla", marks=[pytest.mark.slow, pytest.mark.tensorflow]))


def linear(inputs, outputs, name):
    """A network `x W` without bias."""
    entry = keras.Input((inputs,))
    return keras.Model(entry, keras.layers.Dense(outputs, use_bias=False)(entry), name=name)


def linear_parts():
    """A backbone from 3 inputs to 4 features and a label head from those to 3 classes."""
    return {"backbone": linear(3, 4, "backbone"), "label_head": linear(4, 3, "label_head")}


def with_random_weights(model, seed=2):
    """Draws all trainable weights from the standard normal distribution; returns the model."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model


def weights_of(model):
    """The trainable weights in double precision, in order: backbone, label head, what is added."""
    return [np.array(weight, "float64") for weight in model.trainable_weights]


def step(model, mode, x=PAIR, y=LABELS, sample_weight=None):
    """Trains one step at learning rate 1; returns the logs and the gradient of each weight."""
    before = weights_of(model)
    model.compile(keras.optimizers.SGD(1.0), jit_compile=mode == "xla", run_eagerly=mode == "eager")
    batch = (x, y) if sample_weight is None else (x, y, sample_weight)
    # Not `train_on_batch`: its compiled form (Keras 3.15, TensorFlow 2.21) at times gives a product
    # of two layers the gradient at weights that are updated already.
    batches = (one for one in [batch])
    history = model.fit(batches, steps_per_epoch=1, shuffle=False, verbose=0).history
    after = weights_of(model)
    logs = {name: values[0] for name, values in history.items()}
    return logs, [old - new for old, new in zip(before, after, strict=True)]


def check_step(model, mode, terms, gradients, x=PAIR, y=LABELS):
    """Trains one step and compares the logged terms, their sum and every gradient.

    Args:
        model: The model.
        mode: One of `MODES`.
        terms: Expected values by name, whose sum is the loss.
        gradients: Expected gradient of each trainable weight.
        x: The pair.
        y: Its labels.

    Returns:
        The logs.
    """
    logs, slopes = step(model, mode, x, y)
    for name, term in terms.items():
        assert logs[name] == pytest.approx(term, rel=1e-5), name
    assert logs["loss"] == pytest.approx(sum(terms.values()), rel=1e-5)
    for slope, gradient in zip(slopes, gradients, strict=True):
        np.testing.assert_allclose(slope, gradient, rtol=1e-4, atol=1e-6)
    return logs


def central_differences(function, arrays, width=1e-6):
    """The gradient of `function(*arrays)`, a NumPy scalar, with respect to each array."""
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            center = array[index]
            array[index] = center + width
            above = function(*arrays)
            array[index] = center - width
            gradient[index] = (above - function(*arrays)) / (2 * width)
            array[index] = center
        gradients.append(gradient)
    return gradients


def softmax(logits):
    """Softmax of the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def cross_entropy(logits, labels):
    """Mean cross-entropy of integer labels."""
    return -np.mean(np.log(softmax(logits)[np.arange(len(labels)), labels]))
