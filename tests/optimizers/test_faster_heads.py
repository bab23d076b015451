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


def model_with(optimizer, factor=None, batches=2, **compiled):
    """A DANN that was trained for one epoch, always from the same weights."""
    keras.utils.set_random_seed(0)
    model = dann.DANN(mlp_backbone((3,), hidden_units=(5, 4)), num_classes=2, strength=0.5)
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


MODES = [{}, pytest.param({"jit_compile": True}, marks=pytest.mark.slow), {"run_eagerly": True}]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("rate", [0.1, GaninDecay(0.1, total_steps=5)], ids=["number", "schedule"])
def test_heads_step_by_the_factor_more_than_the_backbone(rate, mode):
    mode = {"jit_compile": False, **mode}
    plain = model_with(keras.optimizers.SGD(rate), batches=1, **mode)
    faster = model_with(keras.optimizers.SGD(rate), factor=7.0, batches=1, **mode)
    # One step of SGD is rate * gradient, so that the gradient is the same in both.
    for scale, one, other in zip((1, 7), steps_taken(plain), steps_taken(faster), strict=True):
        assert one
        for expected, step in zip(one, other, strict=True):
            assert np.abs(expected).max() > 1e-5
            np.testing.assert_allclose(step, scale * expected, rtol=1e-4, atol=1e-7)


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(GaninDecay(0.02, total_steps=20), momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw": lambda: keras.optimizers.AdamW(GaninDecay(0.02, total_steps=20), clipnorm=1.0),
}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("sgd", "float32"),
        ("adamw", "mixed_float16"),
        pytest.param("sgd", "mixed_float16", marks=pytest.mark.slow),
        pytest.param("adam", "float32", marks=pytest.mark.slow),
        pytest.param("adam", "mixed_float16", marks=pytest.mark.slow),
        pytest.param("adamw", "float32", marks=pytest.mark.slow),
    ],
)
def test_a_saved_model_resumes_exactly(name, precision, tmp_path):
    keras.config.set_dtype_policy(precision)
    model = model_with(OPTIMIZERS[name](), factor=10.0, jit_compile=False)
    if precision == "mixed_float16":
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations) > 0
    before = values(model.trainable_variables)
    for one in (fit(model, epochs=3), fit(again, epochs=3)):
        assert any((now != then).any() for now, then in zip(parts(one)[0], before, strict=False))
    assert_equal(model, again)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras' TensorBoard writes with TensorFlow"
)
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_callbacks_find_both_learning_rates(precision, tmp_path):
    keras.config.set_dtype_policy(precision)
    model = model_with(keras.optimizers.SGD(0.5), factor=10.0)
    log = keras.callbacks.CSVLogger(str(tmp_path / "metrics.csv"))
    fit(model, callbacks=[keras.callbacks.TensorBoard(str(tmp_path)), log], epochs=2)
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 3
    multi = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    rates = {optimizer.name: float(optimizer.learning_rate) for optimizer in multi.optimizers}
    assert rates == {"backbone": 0.5, "heads": 5.0}


def test_a_frozen_backbone_stays_while_the_heads_learn(tmp_path):
    model = dann.DANN(mlp_backbone((3,), hidden_units=(4,)), num_classes=2)
    model.backbone.trainable = False
    model.compile(faster_heads(model, keras.optimizers.SGD(0.1), 10.0))
    before = values(model.backbone.weights), values(model.label_head.weights)
    fit(model)
    after = values(model.backbone.weights), values(model.label_head.weights)
    assert all((now == then).all() for now, then in zip(after[0], before[0], strict=True))
    assert any((now != then).any() for now, then in zip(after[1], before[1], strict=True))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    for one, other in zip(values(model.weights), values(fit(again).weights), strict=True):
        assert one.shape == other.shape


def test_the_optimizer_that_serves_as_a_pattern_is_not_changed():
    optimizer = keras.optimizers.SGD(0.25, name="mine", loss_scale_factor=8.0)
    model = model_with(optimizer, factor=10.0)
    assert not optimizer.built
    assert (optimizer.name, float(optimizer.learning_rate)) == ("mine", 0.25)
    assert optimizer.loss_scale_factor == model.optimizer.loss_scale_factor == 8.0


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


def nested_backbone():
    """Layers in layers in a model in a model."""
    inputs = keras.Input((3,))
    inner = keras.Sequential([keras.layers.Reshape((3, 1)), keras.layers.Dense(2)])
    x = keras.Sequential([inner, keras.layers.TimeDistributed(keras.layers.Dense(2))])(inputs)
    x = keras.layers.Bidirectional(keras.layers.LSTM(2))(x)
    return keras.Model(inputs, keras.layers.LayerNormalization()(x))


@pytest.mark.tensorflow
def test_a_backbone_whose_variables_get_other_paths_in_a_file_learns_the_same(tmp_path):
    model = dann.DANN(nested_backbone(), num_classes=2)
    model.compile(faster_heads(model, keras.optimizers.SGD(0.1, momentum=0.9)), jit_compile=False)
    fit(model).save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    paths = [{variable.path for variable in one.backbone.weights} for one in (model, again)]
    assert paths[0] != paths[1]  # else this tests nothing
    for one, other in zip(values(fit(model).weights), values(fit(again).weights), strict=True):
        np.testing.assert_array_equal(one, other)


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
