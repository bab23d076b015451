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


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_a_file_of_weights_that_is_missing_or_does_not_fit_is_refused(tmp_path):
    (tmp_path / "broken.weights.h5").write_bytes(b"no weights")
    plain_mobilenet(alpha=0.5).save_weights(tmp_path / "wider.weights.h5")
    for name in ("no", "broken", "wider"):
        with pytest.raises((OSError, ValueError)):
            mobilenet(weights=tmp_path / f"{name}.weights.h5")


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
    "kwargs",
    [
        {"name": "ResNet5"},
        {"name": "preprocess_input"},
        {"input_shape": (32, 32, 1)},
        {"input_shape": (31, 32, 3)},
        {"pooling": "max_pool"},
        {"trainable": "conv9"},
        {"trainable": ["conv5", "head"]},
    ],
)
def test_what_does_not_exist_or_fit_is_refused(kwargs):
    with pytest.raises(ValueError, match="Received|at least 32"):
        application_backbone(**{"input_shape": SHAPE, **kwargs})
