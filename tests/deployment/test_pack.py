"""Packed classifiers give what the classifier gives."""

import os
import subprocess
import sys
import tempfile

import keras
import numpy as np
import pytest
from keras import layers
from support.packable_networks import (
    NETWORKS,
    logits,
    normalized,
    spread_statistics,
    whole_inputs,
)

from dann import DANN
from dann.deployment import ENGINES, PackError, engines, load, pack, summarize
from dann.deployment.packed_model import PackedModel
from dann.deployment.packing import lowered, program_of
from dann.layers import (
    BinaryConv1D,
    BinaryConv1DTranspose,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySeparableConv1D,
    BinarySign,
    RPReLU,
)
from dann.networks import binary_label_head, binary_lenet_backbone, binary_resnet_backbone

NEAR = 1e-4, 1e-4  # the relative and the absolute tolerance
each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(scope="module", params=NETWORKS)
def packed(request, tmp_path_factory):
    keras.utils.set_random_seed(0)
    model = spread_statistics(NETWORKS[request.param]())
    path = tmp_path_factory.mktemp("packed") / "model.dann"
    inputs = whole_inputs(model, 20)
    assert pack(model, path) == path.stat().st_size
    return model, path, inputs, logits(model, inputs)


@each_engine
def test_every_logit_is_that_of_the_classifier(packed, engine):
    _, path, inputs, expected = packed
    assert len(np.unique(expected, axis=0)) > 10
    given = load(path, engine).predict(inputs)
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given, expected)


@each_engine
def test_empty_and_partial_batches(packed, engine):
    _, path, inputs, expected = packed
    model = load(path, engine)
    assert model.predict(inputs[:0]).shape == (0, *expected.shape[1:])
    np.testing.assert_array_equal(model.predict(inputs[:3], batch_size=2), expected[:3])


def test_folding_changes_no_logit_and_leaves_no_batch_norm_before_a_sign(packed):
    model, _, inputs, expected = packed
    plain = PackedModel(lowered(model), "numpy")
    assert not any(step.op == "threshold" for step in plain.program.steps)
    np.testing.assert_array_equal(plain.predict(inputs), expected)
    steps = program_of(model).steps
    assert any(step.op == "threshold" for step in steps)
    for step in steps:
        if step.op == "sign":
            before = steps[step.inputs[0]]
            assert before.op != "affine" or steps[before.inputs[0]].kind != "int"


def check(model, path, count, rtol=0.0, atol=0.0):
    """Packs a model, of which every engine must give the logits on `count` inputs."""
    pack(model, path)
    inputs = whole_inputs(model, count)
    for engine in ENGINES:
        given = load(path, engine).predict(inputs)
        np.testing.assert_allclose(given, logits(model, inputs), rtol, atol)


def test_threads_give_the_same(packed):
    _, path, inputs, expected = packed
    many = np.repeat(inputs, 8, axis=0)
    given = load(path, "numba", threads=3).predict(many, batch_size=160)
    np.testing.assert_array_equal(given, np.repeat(expected, 8, axis=0))


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks_of_convolution(rank, tmp_path):
    inputs = keras.Input((9, 6, 5, 3)[-rank - 1 :])
    if rank == 1:
        x = BinaryConv1D(8, 3, input_estimator=None, padding="causal", dilation_rate=2)(inputs)
        x = BinaryConv1D(8, 3, padding="causal", pad_values=1, use_bias=False)(normalized(x))
        x = layers.MaxPooling1D()(x)
    else:
        x = BinaryConv3D(8, 2, input_estimator=None)(inputs)
        x = BinaryConv3D(8, 3, padding="same", strides=2, use_bias=False)(normalized(x))
    x = layers.Flatten()(normalized(x))
    model = spread_statistics(keras.Model(inputs, BinaryDense(4)(x)))
    check(model, tmp_path / "model.dann", 6)


def test_groups_of_volumes(tmp_path):
    inputs = keras.Input((5, 6, 4, 4))
    x = layers.Conv3D(6, 2, groups=2, strides=(1, 2, 1), padding="same")(inputs)
    x = BinaryConv3D(8, 2, groups=2, dilation_rate=2, use_bias=False)(normalized(x))
    model = keras.Model(inputs, BinaryDense(3)(layers.Flatten()(normalized(x))))
    # Whole sums, and none of the signs is one of 0.
    for weight in model.layers[1].weights:
        weight.assign(np.random.default_rng(0).integers(-3, 4, weight.shape))
    model.layers[2].beta.assign(np.full(6, 0.3))
    check(model, tmp_path / "model.dann", 6)


@pytest.mark.parametrize("residual", [False, True])
def test_the_networks_of_the_package_are_packed(residual, tmp_path):
    if residual:
        backbone = binary_resnet_backbone((8, 8, 3), filters=(8, 16), blocks=1)
        model = DANN(backbone, num_classes=5)
    else:
        backbone = binary_lenet_backbone((28, 28, 1), filters=(8, 16))
        head = binary_label_head(backbone.output_shape[-1], 5)
        model = DANN(backbone, label_head=head)
    rng = np.random.default_rng(0)
    for weight in model.classifier.weights:
        if weight.name in ("moving_mean", "gamma", "beta"):
            weight.assign(rng.uniform(-1, 1, weight.shape))
    pack(model, tmp_path / "model.dann")
    images = rng.integers(0, 256, (30, *model.classifier.input_shape[1:]), "uint8")
    expected = logits(model.classifier, images)
    given = load(tmp_path / "model.dann", "numpy").predict(images)
    np.testing.assert_array_equal(given.argmax(1), expected.argmax(1))
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_layers_in_full_precision_and_their_activations(tmp_path):
    inputs = keras.Input((9, 8, 4))
    x = layers.Rescaling([0.5, 1, 2, 4], offset=-1)(inputs)
    x = layers.Conv2D(6, 3, activation="relu", groups=2, padding="same", strides=2)(x)
    x = layers.DepthwiseConv2D(2, depth_multiplier=2, activation="tanh")(x)
    x = layers.AveragePooling2D(2, padding="same")(x)
    x = layers.LeakyReLU(0.1)(BinarySign()(x))
    x = layers.Reshape((2, 2, 12))(x)
    x = layers.Add()([layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)])
    x = layers.Dense(6, activation="sigmoid")(x)
    model = keras.Model(inputs, layers.Softmax()(layers.Dense(3)(x)))
    check(model, tmp_path / "model.dann", 5, rtol=1e-5, atol=1e-6)


def test_a_separable_convolution_of_series_and_a_quantizer_that_is_a_function_are_packed(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((6, 2)),
            BinarySeparableConv1D(5, 3, padding="same"),
            layers.Flatten(),
            BinaryDense(3, input_estimator=sign_of, kernel_estimator=sign_of),
        ]
    )
    check(model, tmp_path / "model.dann", 5, rtol=1e-5, atol=1e-6)


@keras.saving.register_keras_serializable("tests")
def sign_of(x):
    return keras.ops.where(x >= 0, 1.0, -1.0)


def refused_models():
    inputs = keras.Input((6, 6, 2))
    flat = keras.Input((4,))

    class Doubled(keras.layers.Dense):
        def call(self, inputs):
            return 2 * super().call(inputs)

    zeros = keras.initializers.Zeros()
    ternary = BinaryDense(2, kernel_estimator="ternary", kernel_initializer=zeros, name="one")
    series = keras.Input((6, 2))
    yield "BinaryConv1DTranspose", BinaryConv1DTranspose(2, 3, name="one")(series), series
    yield "BinaryConv2DTranspose", BinaryConv2DTranspose(2, 3, name="one")(inputs), inputs
    yield "Doubled", Doubled(2, name="one")(flat), flat
    yield "their signs", BinaryDense(2, input_estimator="ternary", name="one")(flat), flat
    yield "-1 and \\+1", ternary(flat), flat
    yield "compute in float32", layers.Dense(2, dtype="mixed_bfloat16", name="one")(flat), flat
    yield "activation", layers.Dense(2, activation="gelu", name="one")(flat), flat
    channels_first = BinaryConv2D(2, 3, data_format="channels_first", name="one")
    images = keras.Input((2, 6, 6))
    yield "channels_last", channels_first(images), images
    quantized = layers.Dense(2, name="one")
    outputs = quantized(flat)
    quantized.quantize("int8")
    yield "compute in float32.*int8_from_float32", outputs, flat
    yield "last axis.*axis=1", layers.BatchNormalization(axis=1, name="one")(inputs), inputs
    yield "`threshold`", layers.ReLU(threshold=0.5, name="one")(flat), flat


@pytest.mark.parametrize("number", range(11))
def test_what_cannot_be_packed_is_refused_by_name(number, tmp_path):
    message, outputs, inputs = list(refused_models())[number]
    with pytest.raises(PackError, match=f"'one'.*{message}"):
        pack(keras.Model(inputs, outputs), tmp_path / "model.dann")
    assert list(tmp_path.iterdir()) == []


def test_models_that_add_to_their_graph_are_refused(tmp_path):
    class Doubled(keras.Model):
        def call(self, inputs, training=None):
            return 2 * super().call(inputs, training=training)

    class DoubledInARow(keras.Sequential):
        def call(self, inputs, training=None):
            return 2 * super().call(inputs, training=training)

    class Named(keras.Model):
        pass

    inputs = keras.Input((4,))
    outputs = BinaryDense(3)(inputs)
    for model in (Doubled(inputs, outputs), DoubledInARow([inputs, BinaryDense(3)])):
        with pytest.raises(PackError, match="its own `call`.*Received: Doubled"):
            pack(model, tmp_path / "model.dann")
        with pytest.raises(
            PackError, match=f"its own `call`|'{model.name}' cannot be packed.*: Doubled"
        ):
            pack(keras.Sequential([inputs, model]), tmp_path / "model.dann")
    check(Named(inputs, outputs), tmp_path / "model.dann", 4, *NEAR)


def test_scaled_kernels_need_no_batch_norm_for_the_same_signs(tmp_path):
    """Sums of products are whole, so that a tie is 0 here as there."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((9, 9, 3))
    scaled = {"kernel_estimator": "magnitude_aware", "use_bias": False}
    x = BinaryConv2D(10, 3, padding="same", strides=2, **scaled)(inputs)
    x = BinaryDepthwiseConv2D(2, depth_multiplier=2, **scaled)(x)
    x = BinaryDense(30, **scaled)(layers.Flatten()(x))
    model = keras.Model(inputs, BinaryDense(5, **scaled)(x))
    for layer in model.layers[1:3]:
        assert (logits(keras.Model(inputs, layer.output), whole_inputs(model, 50)) == 0).any()
    check(model, tmp_path / "model.dann", 50)


def test_slopes_below_0_turn_the_sign_around_once(tmp_path):
    inputs = keras.Input((9,))
    shifted = RPReLU()
    x = shifted(normalized(BinaryDense(12, use_bias=False)(inputs)))
    model = spread_statistics(keras.Model(inputs, BinaryDense(5, use_bias=False)(x)))
    shifted.slope.assign(np.linspace(-2, 1, 12))
    check(model, tmp_path / "model.dann", 99)


@pytest.mark.parametrize("kind", ["MaxPooling2D", "AveragePooling2D"])
@pytest.mark.parametrize("of_signs", [False, True])
def test_borders_of_poolings_take_no_part(kind, of_signs, tmp_path):
    """Of numbers that are all below 0, be they float or sums."""
    inputs = keras.Input((4, 4, 2))
    x = layers.Rescaling(1.0, offset=-4.0)(inputs)
    if of_signs:
        x = BinaryConv2D(3, 1, use_bias=False, kernel_initializer="ones")(x)
    pool = getattr(layers, kind)(3, strides=1, padding="same")
    model = keras.Model(inputs, layers.Flatten()(pool(x)))
    assert (logits(model, whole_inputs(model, 3)) < 0).all()
    check(model, tmp_path / "model.dann", 3, rtol=1e-6)


@each_engine
def test_softmax_of_great_numbers(engine, tmp_path):
    model = keras.Sequential([keras.Input((3,)), layers.Softmax()])
    pack(model, tmp_path / "model.dann")
    given = load(tmp_path / "model.dann", engine).predict([[1e4, 1e4, -1e4], [0, 90, 0]])
    np.testing.assert_allclose(given, [[0.5, 0.5, 0], [0, 1, 0]], atol=1e-6)


def test_models_without_one_graph_of_fixed_size_are_refused(tmp_path):
    class Own(keras.Model):
        def call(self, inputs):
            return keras.ops.convert_to_tensor(np.asarray(inputs))

    inputs, other = keras.Input((None, 2)), keras.Input((3,))
    called = Own()
    called(np.zeros((1, 2)))
    two = keras.Model([other, keras.Input((3,))], layers.Dense(1)(other))
    for model, message in (
        (Own(), "must be built.*`keras.Input`.*Received: Own 'own.*, not built"),
        (called, "a functional or sequential"),
        (keras.Sequential([layers.Dense(2)], name="bare"), "must be built.*Sequential 'bare'"),
        (keras.Model(inputs, layers.Dense(2)(inputs)), "inputs of one size"),
        (two, "one input and one output. Received: 2 inputs"),
    ):
        with pytest.raises(PackError, match=message):
            pack(model, tmp_path / "model.dann")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda path: load(path, "cuda"),
            "`engine` must be one of 'numba', 'numpy'. Received: engine='cuda'",
        ),
        (lambda path: load(path, threads=0), "`threads` .*at least 1. Received: threads=0"),
        (lambda path: load(path).predict(np.zeros((2, 3))), r"\(batch, 4\).*Received: .*\(2, 3\)"),
        (lambda path: load(path).predict(np.zeros((2, 4)), 0), "`batch_size` .*at least 1"),
    ],
)
def test_wrong_arguments_are_refused(call, message, tmp_path):
    pack(keras.Sequential([keras.Input((4,)), layers.Dense(2)]), tmp_path / "model.dann")
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "model.dann")


@pytest.mark.parametrize("inputs", [np.full((1, 4), 1j), [[None] * 4], [["1"] * 4]])
def test_inputs_are_real_numbers(inputs, tmp_path):
    pack(keras.Sequential([keras.Input((4,)), layers.Dense(2)]), tmp_path / "model.dann")
    with pytest.raises(TypeError, match="must be real numbers. Received: inputs of"):
        load(tmp_path / "model.dann").predict(inputs)


def test_what_single_precision_does_not_hold_is_infinite(tmp_path):
    pack(keras.Sequential([keras.Input((2,)), layers.ReLU()]), tmp_path / "model.dann")
    outputs = load(tmp_path / "model.dann").predict([[1e300, 2.0]])
    np.testing.assert_array_equal(outputs, [[np.inf, 2]])


def test_what_no_engine_would_run_is_refused(tmp_path):
    single = keras.Sequential([keras.Input(()), layers.ReLU()])
    with pytest.raises(PackError, match="No engine would run it.*shapes of whole numbers"):
        pack(single, tmp_path / "model.dann")
    assert list(tmp_path.iterdir()) == []


def test_inputs_may_be_of_any_real_type(tmp_path):
    model = keras.Sequential([keras.Input((4,)), BinaryDense(2)])
    pack(model, tmp_path / "model.dann")
    rows = np.arange(8).reshape(2, 4) - 4
    expected = logits(model, rows.astype("float32"))
    kinds = ("int8", "float16", "float64", "bfloat16")
    for inputs in (rows.tolist(), *(keras.ops.cast(rows, kind) for kind in kinds)):
        given = load(tmp_path / "model.dann", "numpy").predict(inputs)
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("given", ["model", None, BinaryDense(2)])
def test_only_models_are_packed_and_summarized(given, tmp_path):
    for call in (lambda: pack(given, tmp_path / "model.dann"), lambda: summarize(given)):
        with pytest.raises(TypeError, match="must be a Keras model. Received: "):
            call()


def test_what_a_model_does_in_training_is_not_packed_as_inference(tmp_path):
    inputs = keras.Input((4,))
    nested = keras.Sequential([keras.Input((4,)), layers.BatchNormalization()], name="one")
    for layer in (layers.BatchNormalization(name="one"), layers.Dropout(0.5, name="one"), nested):
        model = keras.Model(inputs, BinaryDense(2)(layer(inputs, training=True)))
        with pytest.raises(PackError, match="'one' must be called without `training`.*=True"):
            pack(model, tmp_path / "model.dann")
    for training in (None, False):
        x = layers.BatchNormalization()(inputs, training=training)
        check(
            keras.Model(inputs, nested(x, training=training)),
            tmp_path / "model.dann",
            4,
            rtol=1e-4,
            atol=1e-4,
        )


def test_sums_may_be_written_as_sums(tmp_path):
    inputs = keras.Input((6, 6, 3))
    x = layers.Conv2D(4, 3, padding="same")(inputs)
    x = normalized(BinaryConv2D(4, 3, padding="same", use_bias=False)(x)) + x
    x = keras.ops.add(normalized(BinaryConv2D(4, 3, padding="same", use_bias=False)(x)), x)
    x = layers.Flatten()(x)
    model = spread_statistics(keras.Model(inputs, BinaryDense(3)(x + x)))
    kernel = model.layers[1].kernel
    kernel.assign(np.random.default_rng(0).integers(-3, 4, kernel.shape))
    check(model, tmp_path / "model.dann", 6)
    assert [step.op for step in lowered(model).steps].count("add") == 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x + 1.0, "must add outputs of layers.*Rescaling.*one output"),
        (lambda x: x + np.ones(4, "float32"), "must add outputs of layers"),
        (lambda x: x + layers.Dense(1)(x), r"outputs of one shape.*\(4,\), \(1,\)"),
        (keras.ops.relu, "use a layer of `keras.layers`.*: Add. Received: Relu of `keras.ops`"),
        (lambda x: x * x, "Received: Multiply of `keras.ops`"),
    ],
)
def test_other_operations_are_refused_with_a_way_out(function, message, tmp_path):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(2)(function(inputs)))
    with pytest.raises(PackError, match=message):
        pack(model, tmp_path / "model.dann")


def test_places_that_cannot_hold_a_file_are_named(tmp_path):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    for path, error in (
        (tmp_path / "missing" / "model.dann", FileNotFoundError),
        (tmp_path, IsADirectoryError),
    ):
        with pytest.raises(error) as caught:
            pack(model, path)
        assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("taken", [[0], [1], [2], [2, 0, 0, 1]])
def test_each_output_of_a_nested_model_is_its_own(taken, tmp_path):
    inputs = keras.Input((4,))
    first = layers.Dense(4)(inputs)
    nested = keras.Model(inputs, [first, layers.Dense(4)(first), inputs], name="nested")
    outer = keras.Input((4,))
    outputs = nested(layers.Rescaling(2.0)(outer))
    x = layers.Reshape((1, 4))(outputs[taken[0]])
    for weight, place in enumerate(taken[1:], start=2):
        scaled = layers.Rescaling(float(weight))(outputs[place])
        x = layers.Add()([x, layers.Reshape((1, 4))(scaled)])
    model = keras.Model(outer, x)
    check(model, tmp_path / "model.dann", 4, *NEAR)
    names = [step.layer for step in program_of(model).steps]
    assert len(names) == len(set(names))


def two_inputs(own_keys):
    """A nested model of inputs that it does not treat alike, with names out of order."""
    first, second = keras.Input((4,), name="zz"), keras.Input((4,), name="aa")
    x = layers.Add()([layers.Dense(4)(first), layers.Rescaling(3.0)(second)])
    inputs = {"zz": first, "aa": second} if own_keys else [first, second]
    return keras.Model(inputs, x, name="nested")


@pytest.mark.parametrize(
    ("own_keys", "given"),
    [
        (False, lambda one, two: {"zz": one, "aa": two}),
        (False, lambda one, two: {"aa": one, "zz": two}),
        (False, lambda one, two: [one, two]),
        (True, lambda one, two: {"zz": one, "aa": two}),
    ],
)
def test_inputs_of_nested_models_go_where_keras_sends_them(own_keys, given, tmp_path):
    inputs = keras.Input((4,))
    outputs = two_inputs(own_keys)(given(layers.Rescaling(2.0)(inputs), inputs))
    check(keras.Model(inputs, outputs), tmp_path / "model.dann", 4, *NEAR)


def test_tensors_that_lead_nowhere_known_are_refused(tmp_path):
    inputs, flags = keras.Input((4,)), BinarySign()
    more = two_inputs(False)({"zz": inputs, "aa": inputs, "more": inputs})
    masked = layers.Softmax(name="one")(inputs, mask=flags(inputs))
    split = keras.Model(inputs, [inputs, flags(inputs)])
    many = keras.Sequential([keras.Input((4,)), split, layers.Add(name="one")])
    for model, message in (
        (keras.Model(inputs, more), "'nested' .*by their names.*Received: .*'more'"),
        (keras.Model(inputs, masked), "'one' .* inputs alone .*Received: 2 .*'mask'"),
        (many, "'one' must get as many tensors as it takes, 1.*Received: 2"),
    ):
        with pytest.raises(PackError, match=message):
            pack(model, tmp_path / "model.dann")


def test_a_network_deeper_than_python_recurses_is_packed(tmp_path):
    inputs = x = keras.Input((3,))
    for _ in range(sys.getrecursionlimit() // 2 + 50):
        x = layers.LeakyReLU(0.999)(x)
    check(keras.Model(inputs, BinaryDense(2)(x)), tmp_path / "model.dann", 4, *NEAR)


@each_engine
def test_a_nan_counts_as_minus_1(engine, tmp_path):
    model = keras.Sequential([keras.Input((3,)), BinaryDense(2, use_bias=False)])
    pack(model, tmp_path / "model.dann")
    given = load(tmp_path / "model.dann", engine).predict([[np.nan, 2.0, np.nan]])
    np.testing.assert_array_equal(given, logits(model, np.array([[-1.0, 2.0, -1.0]])))


@pytest.fixture
def numba_anew(monkeypatch):
    """Lets `load` import what numba compiles once more."""
    for name in ("numba_bits", "numba_floats", "numba_machine", "numba_vectors"):
        monkeypatch.delitem(sys.modules, f"dann.deployment.engines.{name}", raising=False)
        monkeypatch.delattr(engines, name, raising=False)


def test_numba_runs_where_it_may_write_no_folder(packed, numba_anew, monkeypatch):
    _, path, inputs, expected = packed

    def refuse(*arguments, **keywords):
        raise OSError("read-only")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # what numba tries folders with
    model = load(path)
    assert model.engine == "numba"
    np.testing.assert_array_equal(model.predict(inputs), expected)


def test_numpy_runs_where_numba_cannot_be_imported(packed, numba_anew, monkeypatch):
    _, path, inputs, expected = packed
    monkeypatch.setitem(sys.modules, "numba", None)
    model = load(path)
    assert model.engine == "numpy"
    np.testing.assert_array_equal(model.predict(inputs), expected)
    with pytest.raises(ImportError, match="pip install dann\\[deploy\\]"):
        load(path, "numba")


@pytest.mark.parametrize(
    ("lazy", "prelude"), [("1", "import sys"), ("0", "import sys; sys.modules['keras'] = None")]
)
def test_a_fresh_process_loads_and_predicts_without_keras(packed, tmp_path, lazy, prelude):
    _, path, inputs, expected = packed
    for name in ("tensorflow", "keras", "jax"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError('blocked')")
    np.save(tmp_path / "inputs.npy", inputs)
    program = (
        f"{prelude}; import numpy as np; from dann.deployment import load; "
        "model = load(sys.argv[1], 'numpy'); "
        "np.save('outputs.npy', model.predict(np.load('inputs.npy')))"
    )
    environment = {
        **os.environ,
        "DANN_LAZY_IMPORT": lazy,
        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-c", program, str(path)]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "outputs.npy"), expected)
