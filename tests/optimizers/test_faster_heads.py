import keras
import numpy as np
import pytest
from constant_gradient import assert_equal, values

import dann
from dann.networks import mlp_backbone
from dann.optimizers.faster_heads import faster_heads
from dann.schedules import GaninDecay

RNG = np.random.default_rng(0)
PAIR = {"source": RNG.normal(size=(8, 3)), "target": RNG.normal(size=(8, 3))}
LABELS = RNG.integers(0, 2, 8)


def small():
    return mlp_backbone((3,), hidden_units=(5, 4))


def model_with(optimizer, factor=None, batches=2, backbone=small, **compiled):
    """A DANN that was trained for one epoch, always from the same weights."""
    keras.utils.set_random_seed(0)
    model = dann.DANN(backbone(), num_classes=2, strength=0.5)
    if factor is not None:
        optimizer = faster_heads(model, optimizer, factor)
    model.compile(optimizer, **compiled)
    return fit(model, batches)


def fit(model, batches=2, **kwargs):
    model.fit(PAIR, LABELS, batch_size=8 // batches, shuffle=False, verbose=0, **kwargs)
    return model


def parts(model):
    backbone = model.backbone.trainable_variables
    return values(backbone), values(model.trainable_variables[len(backbone) :])


def steps_taken(model):
    """How far one step moved the backbone and the heads."""
    start = model_with(keras.optimizers.SGD(0.0), batches=1)
    return [
        [after - before for after, before in zip(*both, strict=True)]
        for both in zip(parts(model), parts(start), strict=True)
    ]


@pytest.mark.parametrize(
    ("rate", "mode"),
    [(0.1, {"jit_compile": False}), (GaninDecay(0.1, total_steps=5), {"run_eagerly": True})],
)
def test_heads_step_by_the_factor_more_than_the_backbone(rate, mode):
    plain = model_with(keras.optimizers.SGD(rate), batches=1, **mode)
    faster = model_with(keras.optimizers.SGD(rate), factor=7.0, batches=1, **mode)
    # One step of SGD is rate * gradient, so that the gradient is the same in both.
    for scale, one, other in zip((1, 7), steps_taken(plain), steps_taken(faster), strict=True):
        assert one
        for expected, step in zip(one, other, strict=True):
            assert np.abs(expected).max() > 1e-5
            np.testing.assert_allclose(step, scale * expected, rtol=1e-4, atol=1e-7)


def nested():
    """Layers in layers in a model in a model, whose variables get other paths in a file."""
    inputs = keras.Input((3,))
    inner = keras.Sequential([keras.layers.Reshape((3, 1)), keras.layers.Dense(2)])
    x = keras.Sequential([inner, keras.layers.TimeDistributed(keras.layers.Dense(2))])(inputs)
    return keras.Model(inputs, keras.layers.Flatten()(x))


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_a_saved_model_resumes_exactly(precision, tmp_path):
    keras.config.set_dtype_policy(precision)
    optimizer = keras.optimizers.AdamW(GaninDecay(0.02, total_steps=20), clipnorm=1.0)
    model = model_with(optimizer, factor=10.0, backbone=nested, jit_compile=False)
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (precision == "mixed_float16")
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations) > 0
    paths = [[variable.path for variable in one.backbone.weights] for one in (model, again)]
    assert paths[0] != paths[1]  # else this tests nothing
    before = values(model.trainable_variables)
    for one in (fit(model), fit(again)):
        assert any((now != then).any() for now, then in zip(parts(one)[0], before, strict=False))
    assert_equal(model, again)


def test_a_frozen_backbone_stays_while_the_heads_learn():
    model = dann.DANN(small(), num_classes=2)
    model.backbone.trainable = False
    model.compile(faster_heads(model, keras.optimizers.SGD(0.1), 10.0))
    before = values(model.backbone.weights), values(model.label_head.weights)
    fit(model)
    after = values(model.backbone.weights), values(model.label_head.weights)
    assert all((now == then).all() for now, then in zip(after[0], before[0], strict=True))
    assert any((now != then).any() for now, then in zip(after[1], before[1], strict=True))


def test_the_optimizer_that_serves_as_a_pattern_is_not_changed():
    optimizer = keras.optimizers.SGD(0.25, name="mine", loss_scale_factor=8.0)
    model = model_with(optimizer, factor=10.0)
    assert not optimizer.built
    assert (optimizer.name, float(optimizer.learning_rate)) == ("mine", 0.25)
    assert optimizer.loss_scale_factor == model.optimizer.loss_scale_factor == 8.0
    rates = {one.name: float(one.learning_rate) for one in model.optimizer.optimizers}
    assert rates == {"backbone": 0.25, "heads": 2.5}


def dense_model(*names):
    inputs = keras.Input((4,))
    x = inputs
    for name in names:
        x = keras.layers.Dense(4, name=name)(x)
    return keras.Model(inputs, x)


def test_names_that_backbone_and_heads_share_do_not_matter():
    model = dann.DANN(dense_model("dense"), label_head=dense_model("dense"))
    optimizer = faster_heads(model, keras.optimizers.SGD(0.1))
    optimizer.build(model.trainable_variables)
    counts = {one.name: len(one._trainable_variables) for one in optimizer.optimizers}
    assert counts == {"backbone": 2, "heads": len(model.trainable_variables) - 2}


def a_rate():
    return 0.1


@pytest.mark.parametrize(
    ("optimizer", "factor", "error"),
    [
        (keras.optimizers.SGD(), 0, ValueError),
        (keras.optimizers.SGD(), float("nan"), ValueError),
        (keras.optimizers.SGD(a_rate), 10, TypeError),
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), 10, KeyError),
    ],
)
def test_what_cannot_be_multiplied_is_refused(optimizer, factor, error):
    model = dann.SourceOnly(dense_model("dense"), num_classes=2)
    with pytest.raises(error):
        faster_heads(model, optimizer, factor)
