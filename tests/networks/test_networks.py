"""Backbones and heads: layers, shapes, pretrained applications and refused arguments."""

import functools
import inspect
import pathlib

import keras
import numpy as np
import pytest

import dann
from dann import networks
from dann.networks import application_backbone

LABELS = {"num_features": 6, "num_classes": 4, "hidden_units": (5, 3)}
SMALL = {"input_shape": (16, 16, 1), "filters": (4, 6)}
MLP = {"input_shape": (5, 2), "hidden_units": (4, 3)}
SERIES = {"input_shape": (9, 2), "filters": (4, 6), "kernel_sizes": (3, 2), "dropout": 0.5}
MAKERS = {  # with the length of the outputs
    "application_backbone": (256, {"input_shape": (32, 32, 3), "name": "MobileNet", "alpha": 0.25}),
    "binary_label_head": (4, LABELS),
    "binary_lenet_backbone": (6, SMALL),
    "binary_mlp_backbone": (3, MLP | {"input_range": (0, 255)}),
    "binary_resnet_backbone": (6, SMALL | {"input_shape": (9, 8, 3)}),
    "cnn_backbone": (6, SMALL | {"units": 6, "dropout": 0.5}),
    "domain_head": (1, {"num_features": 6, "batch_norm": True}),
    "label_head": (4, LABELS | {"dropout": 0.5}),
    "lenet_backbone": (6, {"bottleneck_units": 6, "initializer": "torch"}),
    "mlp_backbone": (3, MLP | {"dropout": 0.5}),
    "mnist_backbone": (768, {}),
    "time_series_backbone": (6, SERIES),
}


def test_every_network_is_exported_and_has_a_config():
    configs = pathlib.Path(__file__).parents[2] / "conf/network"
    assert set(MAKERS) == {name for name, _ in inspect.getmembers(networks, inspect.isfunction)}
    texts = list(map(pathlib.Path.read_text, configs.glob("*.yaml")))
    for name in filter(lambda name: name.endswith("_backbone"), MAKERS):
        assert any(f"dann.networks.{name}\n" in text for text in texts)


APPLICATION, *OTHERS = MAKERS


@pytest.mark.parametrize("name", [pytest.param(APPLICATION, marks=pytest.mark.slow), *OTHERS])
def test_outputs_have_documented_length_and_survive_saving(name, reloaded):
    length, arguments = MAKERS[name]
    model = getattr(networks, name)(**arguments)
    inputs = np.random.default_rng(0).uniform(0, 255, (3, *model.input_shape[1:]))
    outputs = model.predict(inputs, verbose=0)
    assert outputs.shape == (3, length)
    assert model.output_shape == (None, length)
    np.testing.assert_array_equal(reloaded(model).predict(inputs, verbose=0), outputs)


def count_convolutions(*convolutions):
    """Returns the number of weights from the sizes of kernels, input and output channels."""
    return sum((size**2 * inputs + 1) * outputs for size, inputs, outputs in convolutions)


LENET = count_convolutions((5, 1, 20), (5, 20, 50), (4, 50, 500))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # Figure 4a of the paper.
        (networks.mnist_backbone, count_convolutions((5, 3, 32), (5, 32, 48))),
        (lambda: networks.label_head(768, 10), 769 * 100 + 101 * 100 + 101 * 10),
        (lambda: networks.domain_head(768), 769 * 100 + 101),
        (networks.lenet_backbone, LENET),
        # A bottleneck of 256 units, with four numbers per unit in batch normalization.
        (lambda: networks.lenet_backbone(bottleneck_units=256), LENET + (501 + 4) * 256),
        (networks.binary_lenet_backbone, 5 * 5 * 3 * 32 + 5 * 5 * 32 * 48 + 4 * (32 + 48)),
        # Convolutions of 8, 5 and 3 time steps to 128, 256 and 128 channels, without a bias.
        (
            lambda: networks.time_series_backbone((20, 2)),
            8 * 2 * 128 + 5 * 128 * 256 + 3 * 256 * 128 + 4 * (128 + 256 + 128),
        ),
    ],
)
def test_published_networks_have_published_parameters(model, expected):
    network = model()
    assert network.count_params() == expected
    for layer in network.layers:
        if isinstance(layer, keras.layers.MaxPooling2D):
            assert (layer.pool_size, layer.strides) == ((2, 2), (2, 2))


def test_torch_initial_weights_follow_the_fan_in():
    backbone = networks.lenet_backbone(bottleneck_units=256, initializer="torch")
    head = networks.domain_head(256, (64,), batch_norm=True, initializer="torch")
    weighted = [x for x in (*backbone.layers, *head.layers) if hasattr(x, "kernel")]
    fans_in = [25, 500, 800, 500, 256, 64]
    for layer, fan_in in zip(weighted, fans_in, strict=True):
        limit = 1 / np.sqrt(fan_in)
        for weights, share in ((layer.kernel, 0.9), (layer.bias, 0.0)):
            largest = np.abs(keras.ops.convert_to_numpy(weights)).max()
            assert share * limit < largest <= limit


def test_time_series_backbone_averages_over_time():
    backbone = networks.time_series_backbone((16, 1), filters=(3,), kernel_sizes=(1,))
    series = np.random.default_rng(0).normal(size=(2, 16, 1)).astype("float32")
    kernel = keras.ops.convert_to_numpy(backbone.layers[1].kernel)[0, 0]
    normalized = series * kernel / np.sqrt(1 + 1e-3)  # mean 0 and variance 1 before training
    expected = np.maximum(normalized, 0).mean(axis=1)
    np.testing.assert_allclose(backbone.predict(series, verbose=0), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [networks.mnist_backbone, networks.mlp_backbone])
def test_pixels_are_mapped_to_unit_range(make):
    rescaling = make((28, 28, 3), input_range=(-3, 255)).layers[1]
    scaled = keras.ops.convert_to_numpy(rescaling(np.array([-3, 255], "float32")))
    np.testing.assert_allclose(scaled, [-1, 1], atol=1e-6)


@pytest.mark.parametrize("make", [networks.binary_lenet_backbone, networks.cnn_backbone])
def test_instance_norm_standardizes_each_channel_of_each_image(make):
    backbone = make((16, 16, 3), filters=(4, 6), instance_norm=True)
    normalized = keras.Model(backbone.input, backbone.layers[2].output)
    images = np.random.default_rng(0).uniform(0, 255, (3, 16, 16, 3)).astype("float32")
    images[1] = 0.1 * images[1] + 90
    images[2] = 7  # no variance
    x = images / 127.5 - 1
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 0.001)
    np.testing.assert_allclose(normalized.predict(images, verbose=0), expected, atol=1e-4)
    assert len(make((16, 16, 3), filters=(4, 6)).layers) == len(backbone.layers) - 1


def test_logits_stay_in_single_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    heads = [networks.label_head(6, 4), networks.domain_head(6)]
    heads += [networks.binary_label_head(6, 4, binary_logits=binary) for binary in (False, True)]
    assert {head.output.dtype for head in heads} == {"float32"}


RGB_SHAPE = (32, 32, 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (4, *RGB_SHAPE)).astype("uint8")


def mobilenet(**kwargs):
    return application_backbone(RGB_SHAPE, "MobileNet", alpha=0.25, **kwargs)


def caffe(images):
    return images[..., ::-1] - np.array([103.939, 116.779, 123.68])


def torch(images):
    return (images / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])


@pytest.mark.parametrize(
    ("name", "preprocess"),
    [
        ("ResNet50", caffe),
        ("VGG16", caffe),
        ("DenseNet121", torch),
        ("MobileNet", lambda images: images / 127.5 - 1),
        ("MobileNetV3Small", lambda images: images),  # contains its own rescaling
    ],
)
def test_images_are_preprocessed_for_the_application(name, preprocess, monkeypatch):
    """A network that returns its inputs replaces the application, and shows the preprocessing."""

    @functools.wraps(getattr(keras.applications, name))
    def identity(input_shape, **_):
        layers = [keras.layers.Dense(3, kernel_initializer="identity"), keras.layers.Flatten()]
        return keras.Sequential([keras.Input(input_shape), *layers])

    monkeypatch.setattr(keras.applications, name, identity)
    images = application_backbone(RGB_SHAPE, name).predict(IMAGES, verbose=0).reshape(IMAGES.shape)
    np.testing.assert_allclose(images, preprocess(IMAGES.astype("float64")), rtol=1e-5, atol=1e-4)


def test_application_with_weights_of_a_file_computes_the_features(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {"weights": None, "include_top": False, "alpha": 0.25, "pooling": "avg"}
    application = keras.applications.MobileNet(input_shape=RGB_SHAPE, **options)
    application.save_weights(tmp_path / "own.weights.h5")
    backbone = mobilenet(weights="~/own.weights.h5")
    expected = application.predict(IMAGES / np.float32(127.5) - 1, verbose=0)
    np.testing.assert_allclose(backbone.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)


def test_stages_train_and_other_layers_are_frozen():
    pair = ["conv_dw_13", "conv_pw_13"]
    for stages, names in (("none", []), ("conv_pw_1", ["conv_pw_1"]), (pair, pair)):
        backbone = mobilenet(trainable=stages)
        layers = {variable.path.partition("/")[0] for variable in backbone.trainable_weights}
        assert layers == {*names, *(f"{name}_bn" for name in names)}  # conv_pw_10 is frozen


def test_frozen_backbone_is_unfrozen_by_trainable(reloaded):
    backbone, expected = mobilenet(trainable=False), len(mobilenet().trainable_weights)
    assert reloaded(backbone).trainable_weights == []
    for network in (backbone, mobilenet(trainable="conv_pw_13")):
        network.trainable = True
        assert len(network.trainable_weights) == expected > 0


PAIR = {"source": IMAGES, "target": 255 - IMAGES}, np.array([0, 1, 2, 1])


def read_weights(weights, stage=""):
    return {w.path: keras.ops.convert_to_numpy(w) for w in weights if w.path.startswith(stage)}


def test_frozen_weights_and_statistics_stay_in_fit_and_file(reloaded):
    backbone = mobilenet(trainable="conv_pw_13")
    for variable in backbone.weights:  # otherwise the activations of random layers vanish
        if variable.path.endswith("moving_variance"):
            variable.assign(0.01 * np.ones(variable.shape))
    model = dann.DANN(backbone, num_classes=3)
    model.compile("sgd", jit_compile=False)
    before = read_weights(backbone.weights)
    model.fit(*PAIR, batch_size=2, verbose=0)
    after = read_weights(backbone.weights)
    changed = {path for path in before if (before[path] != after[path]).any()}
    assert changed == set(read_weights(backbone.weights, "conv_pw_13"))
    assert "conv_pw_13_bn/moving_mean" in changed
    paths = [[w.path for w in network.trainable_weights] for network in (model, reloaded(model))]
    assert paths[0] == paths[1]  # frozen layers are frozen in the loaded model


RGB = {"input_shape": RGB_SHAPE}
STAGES = RGB | {"name": "MobileNet", "trainable": ("conv1", "a")}
REFUSED = {  # a function, its arguments, and words of the error
    "vector": (networks.mnist_backbone, {"input_shape": (64,)}, "use `mlp_backbone`"),
    "height": (networks.lenet_backbone, {"input_shape": (15, 28, 1)}, "height.*16.*15"),
    "range": (networks.mnist_backbone, {"input_range": (1, 1)}, "input_range"),
    "initializer": (networks.lenet_backbone, {"initializer": "jax"}, "'keras', 'torch'"),
    "first layer": (networks.binary_mlp_backbone, MLP | {"first_layer": "int8"}, "'binary_kernel'"),
    "classes": (networks.label_head, {"num_features": 6, "num_classes": 0}, "num_classes=0"),
    "application": (application_backbone, RGB | {"name": "preprocess_input"}, "`name`"),
    "gray images": (application_backbone, {"input_shape": (32, 32, 1)}, "RGB images"),
    "stage": (application_backbone, STAGES, "such as .*'conv'.*Received: 'a'"),
}


@pytest.mark.parametrize(("make", "arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_are_refused(make, arguments, words):
    with pytest.raises(ValueError, match=words):
        make(**arguments)
