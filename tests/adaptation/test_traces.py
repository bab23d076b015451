"""`fit` begins with one trace of the training step."""

import keras
import numpy as np
import pytest

from dann.adaptation import DANN, MCD
from dann.networks import mlp_backbone

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
INPUTS = {name: np.ones((8, 2), "float32") for name in ("source", "target")}


@pytest.mark.skipif(not ON_TENSORFLOW, reason="counts the traces of TensorFlow")
@pytest.mark.parametrize("method", [DANN, MCD])
@pytest.mark.parametrize("metrics", [None, ["accuracy"]])
@pytest.mark.parametrize("augmentation", [None, {"source": [keras.layers.GaussianNoise(0.1)]}])
def test_a_step_is_traced_once(method, metrics, augmentation):
    traces = []

    class Counted(method):
        def pair_losses(self, *args, **kwargs):
            traces.append(1)
            return super().pair_losses(*args, **kwargs)

    backbone = mlp_backbone((2,), hidden_units=(3,))
    model = Counted(backbone, num_classes=2, augmentation=augmentation)
    model.compile("adam", metrics=metrics)
    logs = model.fit(INPUTS, np.arange(8) % 2, batch_size=4, epochs=2, verbose=0).history
    assert len(traces) == 1
    assert len(logs["loss"]) == 2


def test_metrics_see_only_the_users_labels():
    seen = []

    def of_rank_2(labels, logits):
        seen.append(keras.backend.standardize_dtype(labels.dtype))
        return keras.ops.cast(keras.ops.equal(labels[:, 0], 1), "float32")

    model = DANN(mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    model.compile(keras.optimizers.SGD(0.0), metrics=[of_rank_2])
    logs = model.fit(INPUTS, np.eye(8, 1, dtype="int64"), batch_size=8, verbose=0).history
    assert logs["of_rank_2"] == [0.125]
    assert set(seen) == {"int32" if keras.backend.backend() == "jax" else "int64"}


@pytest.mark.skipif(
    not ON_TENSORFLOW, reason="Keras on JAX builds the optimizer before late layers"
)
@pytest.mark.parametrize("late", [keras.layers.BatchNormalization, lambda: keras.layers.Dense(2)])
def test_a_layer_that_its_first_call_builds_is_trained(late):
    layer = late()
    model = DANN(
        mlp_backbone((2,), hidden_units=(3,)), num_classes=2, augmentation={"target": [layer]}
    )
    model.compile(keras.optimizers.SGD(0.1))
    rng = np.random.default_rng(0)
    inputs = {name: rng.normal(size=(8, 2)) for name in ("source", "target")}
    model.fit(inputs, np.arange(8) % 2, batch_size=8, verbose=0)
    once = [keras.ops.convert_to_numpy(weight) for weight in layer.trainable_weights]
    model.fit(inputs, np.arange(8) % 2, batch_size=8, verbose=0)
    for old, new in zip(once, layer.trainable_weights, strict=True):
        assert np.any(old != keras.ops.convert_to_numpy(new))
