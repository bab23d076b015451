import functools

import keras
import numpy as np
import pytest

import dann
from dann.networks import application_backbone

SHAPE = (32, 32, 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (4, *SHAPE)).astype("uint8")


def mobilenet(**kwargs):
    return application_backbone(SHAPE, "MobileNet", alpha=0.25, **kwargs)


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
    images = application_backbone(SHAPE, name).predict(IMAGES, verbose=0).reshape(IMAGES.shape)
    np.testing.assert_allclose(images, preprocess(IMAGES.astype("float64")), rtol=1e-5, atol=1e-4)


def test_application_with_weights_of_a_file_computes_the_features(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {"weights": None, "include_top": False, "alpha": 0.25, "pooling": "avg"}
    application = keras.applications.MobileNet(input_shape=SHAPE, **options)
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
