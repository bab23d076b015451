"""Tests that every layer of the package passes."""

import dataclasses
import inspect
from collections.abc import Callable

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal
from support.differentiate import IMPLEMENTATIONS, as_array, value_and_gradients

from dann import layers
from dann.gradients import binary_sign
from dann.gradients.estimators import SwishSign
from dann.gradients.estimators.identifiers import get_estimator
from dann.layers import BinarySign, GradientReversal
from dann.schedules import GaninSchedule

FLAT, SERIES, IMAGES, VOLUMES = (4,), (5, 4), (6, 5, 4), (4, 5, 3, 4)  # of one example


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer and the shapes of its inputs and its output, without the batch."""

    kind: Callable[..., keras.layers.Layer]
    arguments: dict
    inputs: tuple[tuple[int, ...], ...] = (IMAGES,)
    output: tuple[int, ...] = IMAGES

    def make(self, **kwargs):
        return self.kind(**self.arguments, **kwargs)

    def __str__(self):
        return self.make().name


PAIR = FLAT, (3,)
CONV = {"filters": 2, "kernel_size": 3}
SAME = {"padding": "same", "pad_values": 1}
DEPTHWISE = {"kernel_size": 3, "kernel_estimator": "dorefa"}
REAL_INPUTS = {"input_estimator": None, "kernel_estimator": SwishSign(2.0), "clip": False}
CASES = [
    *(
        Case(GradientReversal, {"strength": 0.5, "implementation": implementation})
        for implementation in IMPLEMENTATIONS
    ),
    Case(GradientReversal, {"strength": GaninSchedule(total_steps=10)}),
    *(Case(BinarySign, {"implementation": implementation}) for implementation in IMPLEMENTATIONS),
    *(Case(BinarySign, {"estimator": name}) for name in ("ede", "stochastic")),
    Case(BinarySign, {"implementation": "stop_gradient", "estimator": SwishSign(2.0)}),
    Case(layers.RSign, {}),
    Case(layers.RPReLU, {}),
    Case(layers.BatchNormalization, {"momentum": 0.9}),
    Case(layers.DomainBlend, {"factor": 0.7, "seed": 3}, (IMAGES, IMAGES)),
    Case(layers.RandomConvolution, {"kernel_sizes": (1, 3), "rate": 1.0, "seed": 3}),
    Case(layers.MultilinearMap, {}, PAIR, (12,)),
    Case(layers.MultilinearMap, {"max_units": 7, "seed": 3}, PAIR, (7,)),
    Case(layers.BinaryDense, {"units": 2, "kernel_estimator": "magnitude_aware"}, (FLAT,), (2,)),
    Case(layers.BinaryConv1D, CONV | {"padding": "causal", "pad_values": -1}, (SERIES,), (5, 2)),
    Case(layers.BinaryConv2D, CONV | REAL_INPUTS, output=(4, 3, 2)),
    Case(layers.BinaryConv3D, CONV | SAME, (VOLUMES,), (4, 5, 3, 2)),
    Case(layers.BinaryDepthwiseConv2D, DEPTHWISE, output=(4, 3, 4)),
    Case(layers.BinaryConv1DTranspose, CONV | {"strides": 2}, (SERIES,), (11, 2)),
    Case(
        layers.BinaryConv2DTranspose, CONV | {"implementation": "stop_gradient"}, output=(8, 7, 2)
    ),
    Case(layers.BinaryConv3DTranspose, CONV | {"kernel_size": 2}, (VOLUMES,), (5, 6, 4, 2)),
]
KEEPS_MASKS = GradientReversal, BinarySign, layers.RSign, layers.RPReLU, layers.BinaryDense
parametrize_case = pytest.mark.parametrize("case", CASES, ids=str)


def make_inputs(case, batch=3):
    """Returns normal numbers with 0 and both edges of the clip."""
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(batch, *shape)).astype("float32") for shape in case.inputs]
    for array in inputs:
        array.reshape(-1)[:5] = [-2.0, -1.0, 0.0, 1.0, 1.5]
    return inputs


def call(layer, inputs, **kwargs):
    return layer(inputs if len(inputs) > 1 else inputs[0], **kwargs)


def test_every_layer_is_tested_and_public():
    registered = {
        cls
        for cls in keras.saving.get_custom_objects().values()
        if str(cls.__module__).startswith("dann.layers.") and issubclass(cls, keras.layers.Layer)
    }
    assert {case.kind for case in CASES} == registered
    assert {cls.__name__ for cls in registered} <= set(dir(layers))
    for cls in registered:  # an editor shows every argument
        parameters = inspect.signature(cls).parameters.values()
        assert all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters)


@parametrize_case
def test_symbolic_and_eager_calls_have_the_shape(case):
    layer = case.make()
    outputs = call(layer, [keras.Input(shape) for shape in case.inputs])
    assert (outputs.shape, outputs.dtype) == ((None, *case.output), "float32")
    assert all(part.built for part in layer._flatten_layers())  # as `Model.quantize` requires
    values = as_array(call(case.make(), make_inputs(case)))
    assert values.shape == (3, *case.output)
    assert np.isfinite(values).all()


@pytest.mark.tensorflow
@parametrize_case
@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_layer_computes_in_its_policy(case, policy):
    layer = case.make(dtype=policy)
    outputs = call(layer, make_inputs(case))
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    for weight in layer.trainable_weights:
        assert weight.dtype == ("float32" if "mixed" in policy else policy)


@pytest.mark.parametrize("case", [case for case in CASES if case.kind in KEEPS_MASKS], ids=str)
def test_masks_pass_through(case):
    embedded = keras.layers.Embedding(4, 3, mask_zero=True)(np.array([[1, 0]]))
    output = case.make()(embedded)
    np.testing.assert_array_equal(as_array(output._keras_mask), [[True, False]])


@pytest.mark.tensorflow
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
@parametrize_case
def test_layer_trains_compiled_and_is_saved(case, xla, reloaded):
    """The layer is between two dense layers, and the first gets its gradient from the layer."""
    entries = [keras.Input(shape) for shape in case.inputs]
    hidden = [keras.layers.Dense(case.inputs[0][-1])(entries[0]), *entries[1:]]
    layer, inputs = case.make(), make_inputs(case)
    features = keras.layers.Flatten()(call(layer, hidden))
    model = keras.Model(entries, keras.layers.Dense(2)(features))
    before = [as_array(weight) for weight in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=xla)
    model.fit(inputs, np.ones((3, 2)), epochs=2, verbose=0)  # a schedule is 0 in the first step
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(as_array(weight) - old).max() > 0, weight.path
    loaded = reloaded(model)
    assert loaded.get_layer(layer.name).get_config() == layer.get_config()
    assert_all_equal(model.get_weights(), loaded.get_weights())
    assert_all_equal(as_array(loaded(inputs)), as_array(model(inputs)))


@pytest.mark.parametrize("name", ["ede", "reste"])
def test_each_call_in_a_step_has_its_sharpness(name):
    """Compares the gradient of the sum of two calls with two functions of the estimator."""
    estimator = get_estimator(name)
    inputs = np.array([-0.4, 0.05, 0.9], "float32")
    sign = BinarySign(estimator=name)

    def twice(x):
        return sign(x, training=True) + 3.0 * sign(0.5 * x, training=True)

    def at_step(x, step):
        return binary_sign(x, estimator=estimator, sharpness=estimator.sharpness_at(step))

    _, (gradient,) = value_and_gradients(twice, inputs)
    _, (expected,) = value_and_gradients(lambda x: at_step(x, 0) + 3 * at_step(x / 2, 1), inputs)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    assert np.any(gradient)
