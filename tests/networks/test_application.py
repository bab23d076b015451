import subprocess
import sys
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest

import dann
from dann.networks import application_backbone

SHAPE = (32, 32, 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (4, *SHAPE)).astype("uint8")


def mobilenet(**kwargs):
    return application_backbone(SHAPE, "MobileNet", alpha=0.25, **kwargs)


def plain_mobilenet(**kwargs):
    shape = {"input_shape": SHAPE, "include_top": False, "alpha": 0.25, **kwargs}
    return keras.applications.MobileNet(weights=None, **shape)


def write_weights(application, path):
    """Writes Keras' present format, or the one before, which its ImageNet weights have."""
    write = application.save_weights if path.name.endswith(".weights.h5") else application.save
    write(path)


def application_of(backbone):
    """The network of `keras.applications` inside."""
    return next(layer for layer in backbone.layers if isinstance(layer, keras.Model))


def what_it_sees(backbone, images):
    """The images as the backbone's preprocessing leaves them."""
    before = application_of(backbone)._inbound_nodes[-1].input_tensors[0]
    return keras.Model(backbone.input, before).predict(images, verbose=0)


def caffe(images):
    return images[..., ::-1] - np.array([103.939, 116.779, 123.68])


def torch(images):
    return (images / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])


@pytest.mark.parametrize(
    ("name", "preprocess"),
    [
        ("VGG16", caffe),
        ("MobileNet", lambda images: images / 127.5 - 1),
        ("DenseNet121", torch),
        ("MobileNetV3Small", lambda images: images),  # it rescales by itself
    ],
)
def test_plain_images_are_preprocessed_as_the_application_wants_them(name, preprocess):
    backbone = application_backbone(SHAPE, name)
    expected = preprocess(IMAGES.astype("float64"))
    np.testing.assert_allclose(what_it_sees(backbone, IMAGES), expected, rtol=1e-5, atol=1e-4)


def test_features_are_those_of_the_application_on_preprocessed_images():
    backbone = mobilenet()
    application = plain_mobilenet(pooling="avg")
    application.set_weights(backbone.get_weights())
    expected = application.predict(IMAGES / np.float32(127.5) - 1, verbose=0)
    np.testing.assert_allclose(backbone.predict(IMAGES, verbose=0), expected, rtol=1e-4, atol=1e-5)


RELOAD = """
import sys, keras, numpy as np
model = keras.models.load_model(sys.argv[1], safe_mode=True)
np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), verbose=0))
"""


def test_a_saved_backbone_takes_plain_images_in_a_fresh_process_without_dann(tmp_path):
    backbone = application_backbone(SHAPE, "VGG16")  # flips and shifts the channels
    backbone.save(tmp_path / "model.keras")
    np.save(tmp_path / "images.npy", IMAGES)
    paths = [str(tmp_path / name) for name in ("model.keras", "images.npy", "features.npy")]
    subprocess.run([sys.executable, "-c", RELOAD, *paths], check=True, capture_output=True)
    features = np.load(tmp_path / "features.npy")
    np.testing.assert_allclose(features, backbone.predict(IMAGES, verbose=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("file", ["own.weights.h5", "own.h5"])
@pytest.mark.parametrize("folder", ["~", None], ids=["home", "full path"])
def test_weights_come_from_a_file_of_the_application_without_its_classifier(
    file, folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    application = plain_mobilenet()
    application.set_weights([np.full_like(w, 0.01) for w in application.get_weights()])
    write_weights(application, tmp_path / file)
    for value in mobilenet(weights=f"{folder or tmp_path}/{file}").get_weights():
        np.testing.assert_array_equal(value, np.full_like(value, 0.01))


def test_a_missing_file_of_weights_is_reported(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"an existing file of weights. Received: .*no"):
        mobilenet(weights=tmp_path / "no.weights.h5")


def broken(path):
    path.write_bytes(b"no weights")


def of_another_width(path):
    write_weights(plain_mobilenet(alpha=0.5), path)


def with_classifier(path):
    write_weights(plain_mobilenet(include_top=True, classes=3), path)


@pytest.mark.parametrize(
    ("write", "file", "reason"),
    [
        (broken, "own.weights.h5", "file signature not found"),
        (broken, "own.h5", "file signature not found"),
        (broken, "own.txt", "File format not supported"),
        (of_another_width, "own.weights.h5", "54 objects could not be loaded.*shape"),
        (of_another_width, "own.h5", "Shape mismatch in layer #0"),
        (with_classifier, "own.h5", "expected 54 layers, found 55"),
    ],
)
def test_a_file_of_weights_that_does_not_fit_is_reported_in_one_line(write, file, reason, tmp_path):
    write(tmp_path / file)
    message = rf"must be one of MobileNet without its classifier .* Received: .*own.*{reason}"
    with pytest.raises(ValueError, match=message) as caught:
        mobilenet(weights=tmp_path / file)
    assert "\n" not in str(caught.value)


def test_imagenet_weights_without_a_network_are_reported(monkeypatch):
    def no_network(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    with pytest.raises(OSError, match="could not be downloaded; give the path of a local file"):
        application_backbone((128, 128, 3), "MobileNet", weights="imagenet", alpha=0.25)


@pytest.mark.parametrize("trainable", [False, "none"])
def test_a_frozen_backbone_does_not_train(trainable):
    assert mobilenet(trainable=trainable).trainable_weights == []


def test_all_layers_are_fine_tuned_by_default():
    assert len(mobilenet().trainable_weights) == len(plain_mobilenet().trainable_weights)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [("conv_pw_1", {"conv_pw_1"}), (["conv_dw_13", "conv_pw_13"], {"conv_dw_13", "conv_pw_13"})],
)
def test_stages_are_fine_tuned_and_the_rest_is_frozen(stages, expected):
    backbone = mobilenet(trainable=stages)
    layers = {variable.path.partition("/")[0] for variable in backbone.trainable_weights}
    assert layers == expected | {f"{name}_bn" for name in expected}  # and not conv_pw_10


def test_the_last_stage_of_a_residual_network_is_fine_tuned():
    backbone = application_backbone(SHAPE, "ResNet50", trainable=["conv5"])
    paths = [variable.path for variable in backbone.trainable_weights]
    assert all(path.startswith("conv5_block") for path in paths)
    # Three blocks of three convolutions and one on the way past them; weights and bias of each, and
    # scale and shift of its batch normalization.
    assert len(paths) == 4 * (3 * 3 + 1)


PAIR = {"source": IMAGES, "target": 255 - IMAGES}, np.array([0, 1, 2, 1])


def of_stage(weights, stage):
    return {w.path: keras.ops.convert_to_numpy(w) for w in weights if w.path.startswith(stage)}


def test_frozen_layers_and_their_moving_statistics_stay_as_they_are_in_a_fit():
    backbone = mobilenet(trainable="conv_pw_13")
    for variable in backbone.weights:
        if variable.path.endswith("moving_variance"):  # else a random network fades its inputs out
            variable.assign(0.01 * np.ones(variable.shape))
    model = dann.DANN(backbone, num_classes=3)
    model.compile("sgd")
    before = of_stage(backbone.weights, "")
    model.fit(*PAIR, batch_size=2, verbose=0)
    after = of_stage(backbone.weights, "")
    changed = {path for path in before if (before[path] != after[path]).any()}
    assert changed == set(of_stage(backbone.weights, "conv_pw_13"))
    assert "conv_pw_13_bn/moving_mean" in changed


def test_a_dann_around_it_trains_and_comes_back_from_a_file(tmp_path):
    model = dann.DANN(mobilenet(trainable="conv_pw_13"), num_classes=3)
    model.compile("sgd")
    model.fit(*PAIR, batch_size=2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    expected = model.predict(IMAGES, verbose=0)
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), expected)
    paths = [[w.path for w in which.trainable_weights] for which in (model, again)]
    assert paths[0] == paths[1]  # what was frozen is frozen


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"name": "ResNet5"}, r"similar: ResNet50, .*Received: name='ResNet5'"),
        ({"name": "convnext_tiny"}, "no such network in `keras.applications`"),
        ({"name": "preprocess_input"}, "no such network in `keras.applications`"),
        ({"input_shape": (32, 32, 1)}, "channels.*at least 3, .*Received: .*=1"),
        ({"input_shape": (32, 32, 4)}, r"RGB images, 3 channels. Received: .*\(32, 32, 4\)"),
        ({"input_shape": (31, 32, 3)}, "height.*at least 32, .*Received: .*=31"),
        ({"input_shape": (64, 64, 3), "name": "InceptionV3"}, "at least 75x75.*64, 64, 3"),
        ({"pooling": "max_pool"}, "`pooling` must be one of 'avg', 'max'. Received: .*'max_pool'"),
        ({"trainable": "conv9"}, "its layers begin with conv1, conv2, conv3, .*: 'conv9'"),
        ({"trainable": ["conv5", "head"]}, "Received: 'head'"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        application_backbone(**{"input_shape": SHAPE, **kwargs})


@pytest.mark.parametrize("trainable", [5, [5], {"conv5": True}])
def test_stages_that_are_no_names_are_refused(trainable):
    with pytest.raises(TypeError, match="the beginnings of layers' names. Received: trainable="):
        mobilenet(trainable=trainable)
