"""The optimizers on real binary layers, in a method of domain adaptation."""

import inspect

import keras
import numpy as np
import pytest
from constant_gradient import assert_equal, values

import dann
from dann.layers import BinaryConv2D, BinaryDense
from dann.networks import binary_label_head, binary_mlp_backbone
from dann.optimizers import Bop, FlipRatio, PerVariable

RNG = np.random.default_rng(0)
PAIR = {name: RNG.normal(size=(24, 6)).astype("float32") for name in ("source", "target")}
LABELS = np.arange(24) % 3


OPTIMIZERS = sorted(
    name
    for name, value in vars(keras.optimizers).items()
    if inspect.isclass(value)
    and issubclass(value, keras.optimizers.Optimizer)
    and value.__module__.rsplit(".", 1)[1] not in ("optimizer", "multi_optimizer")
    and name not in ("LossScaleOptimizer", "OptimizerMap")
)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains_kernels_of_two_ranks(name):
    layers = BinaryConv2D(2, 3, use_bias=False), BinaryDense(2, use_bias=False)
    for layer, shape in zip(layers, ((None, 4, 4, 1), (None, 8)), strict=True):
        layer.build(shape)
    variables = [layer.kernel for layer in layers]
    before = values(variables)
    slopes = [keras.ops.convert_to_tensor(RNG.normal(size=v.shape), v.dtype) for v in variables]
    getattr(keras.optimizers, name)(0.1).apply(slopes, variables)
    for kernel, old in zip(values(variables), before, strict=True):
        assert np.abs(kernel - old).max() > 0


def model(optimizer, **estimators):
    keras.utils.set_random_seed(0)
    backbone = binary_mlp_backbone((6,), hidden_units=(8, 5), **estimators)
    head = binary_label_head(5, 3, hidden_units=(4,), **estimators)
    made = dann.DANN(backbone, label_head=head, strength=0.5)
    made.compile(optimizer, jit_compile=False)
    return made


def fit(one, epochs=2, callbacks=()):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    return one.fit(PAIR, LABELS, epochs=epochs, callbacks=list(callbacks), **options).history


def bop_and_adam():
    return PerVariable({"binary": Bop(0.2, 1e-4)}, rest=keras.optimizers.Adam(0.01))


def kernels(one):
    layers = [layer for layer in one._flatten_layers() if isinstance(layer, BinaryDense)]
    return values({id(x): x.kernel for x in layers}.values())


def test_bop_trains_the_binary_kernels_and_the_rest_trains_beside_them():
    one = model(bop_and_adam())
    before = [np.array(variable) for variable in one.trainable_variables]
    logs = fit(one, callbacks=[FlipRatio()])
    assert len(kernels(one)) == 3
    for kernel in kernels(one):
        np.testing.assert_array_equal(np.abs(kernel), np.ones_like(kernel))
    for variable, value in zip(one.trainable_variables, before, strict=True):
        assert (np.array(variable) != value).any()
    names = [layer.name for layer in one._flatten_layers() if isinstance(layer, BinaryDense)]
    ratios = {name: shares for name, shares in logs.items() if name.startswith("flips/")}
    assert set(ratios) == {f"flips/{name}" for name in names}
    shares = np.concatenate(list(ratios.values()))
    assert shares.min() >= 0
    assert 0 < shares.max() <= 1


def test_a_saved_method_resumes_exactly(tmp_path):
    one = model(bop_and_adam())
    fit(one)
    one.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert again.optimizer.places == one.optimizer.places
    assert set(one.optimizer.places) == {0, 1}
    for trained in (one, again):
        fit(trained)
    assert_equal(one, again)
