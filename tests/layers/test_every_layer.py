"""The battery that every layer of the package passes."""

import inspect
import json

import keras
import numpy as np
import pytest

import dann.layers
from dann.gradients.estimators import SwishSign
from dann.layers import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySeparableConv2D,
    BinarySign,
    DomainBlend,
    GradientReversal,
    MultilinearMap,
    RPReLU,
    RSign,
)
from dann.schedules import GaninSchedule

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
WAYS = ["override", "stop_gradient", *(["op_override"] if ON_TENSORFLOW else [])]
LAYERS = [
    *(lambda way=way: GradientReversal(0.5, way=way) for way in WAYS),
    lambda: GradientReversal(GaninSchedule(total_steps=10)),
    *(lambda way=way: BinarySign(way=way) for way in WAYS),
    *(lambda name=name: BinarySign(estimator=name) for name in ("ede", "stochastic", "identity")),
    lambda: BinarySign("stop_gradient", SwishSign(2.0)),
    RSign,
]
# Those of several inputs, of a kernel or of other values, whose own tests hold the rest.
OTHERS = [
    lambda: DomainBlend(0.7, seed=3),
    lambda: MultilinearMap(max_units=7, seed=3),
    RPReLU,
    lambda: BinaryDense(2, kernel_estimator="magnitude_aware"),
    lambda: BinaryConv1D(2, 3, padding="causal", pad_values=-1),
    lambda: BinaryConv2D(2, 3, input_estimator=None, kernel_estimator=SwishSign(2.0), clip=False),
    lambda: BinaryConv3D(2, 3, padding="same", pad_values=1.0),
    lambda: BinaryDepthwiseConv2D(3, kernel_estimator="dorefa"),
    lambda: BinarySeparableConv2D(2, 3, input_estimator="reste"),
    lambda: BinaryConv2DTranspose(2, 3, way="stop_gradient"),
]
INPUTS = np.array([[-2.0, -1.0, -0.5], [0.0, 1.0, 1.5]], "float32")

each_layer = pytest.mark.parametrize("make", LAYERS, ids=lambda make: make().name)


def test_no_layer_is_forgotten():
    classes = {
        value
        for value in vars(dann.layers).values()
        if inspect.isclass(value) and issubclass(value, keras.layers.Layer)
    }
    assert {type(make()) for make in LAYERS + OTHERS} == classes


@pytest.mark.parametrize("make", LAYERS + OTHERS, ids=lambda make: make().name)
def test_it_comes_back_from_its_config_through_json(make):
    layer = make()
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == layer.get_config()
    assert type(again) is type(layer)


@each_layer
def test_a_symbolic_call_keeps_shape_and_type(make):
    inputs = keras.Input((3, 4))
    outputs = make()(inputs)
    assert outputs.shape == (None, 3, 4)
    assert outputs.dtype == "float32"


@pytest.mark.tensorflow
@each_layer
def test_an_eager_call_gives_what_the_function_gives(make):
    layer = make()
    expected = np.where(INPUTS >= 0, 1, -1) if isinstance(layer, BinarySign) else INPUTS
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer(INPUTS)), expected)


@pytest.mark.tensorflow
@each_layer
@pytest.mark.parametrize("policy", ["float32", "float16", "bfloat16", "mixed_float16", "float64"])
def test_it_computes_in_its_policy(make, policy):
    if policy == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX computes in float32 unless told otherwise at start")
    keras.config.set_dtype_policy(policy)
    layer = make()
    expected = keras.config.dtype_policy().compute_dtype
    assert keras.backend.standardize_dtype(layer(INPUTS).dtype) == expected


@each_layer
def test_masks_pass_through(make):
    embedded = keras.layers.Embedding(4, 3, mask_zero=True)(np.array([[1, 0]]))
    output = make()(embedded)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(output._keras_mask), [[True, False]])


@pytest.mark.tensorflow
@each_layer
@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_trains_in_a_compiled_fit_and_comes_back_from_a_file(make, jit_compile, tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), make()])
    before = model.get_weights()[0]
    model.compile("sgd", "mse", jit_compile=jit_compile)
    targets = np.zeros((2, 4))  # which no sign meets
    model.fit(INPUTS, targets, epochs=2, verbose=0)  # schedules start at 0
    assert np.abs(model.get_weights()[0] - before).max() > 1e-4
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        again.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0)
    )
