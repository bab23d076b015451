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


def application_of(backbone):
    """The network of `keras.applications` inside."""
    return next(layer for layer in backbone.layers if isinstance(layer, keras.Model))


def what_it_sees(backbone, images):
    """The images as the backbone's preprocessing leaves them."""
    before = application_of(backbone)._inbound_nodes[-1].input_tensors[0]
    return keras.Model(backbone.input, before).predict(images, verbose=0)


@pytest.mark.parametrize(
    ("name", "preprocess"),
    [
        ("MobileNet", lambda images: images / 127.5 - 1),
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


def test_weights_come_from_a_file_of_the_application_without_its_classifier(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    application = plain_mobilenet()
    application.set_weights([np.full_like(w, 0.01) for w in application.get_weights()])
    application.save_weights(tmp_path / "own.weights.h5")
    for value in mobilenet(weights="~/own.weights.h5").get_weights():
        np.testing.assert_array_equal(value, np.full_like(value, 0.01))


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_a_file_of_weights_that_does_not_fit_is_refused(tmp_path):
    plain_mobilenet(alpha=0.5).save_weights(tmp_path / "wider.weights.h5")
    with pytest.raises(ValueError, match="shape"):
        mobilenet(weights=tmp_path / "wider.weights.h5")


def test_a_frozen_backbone_does_not_train_and_by_default_all_of_it_does():
    assert mobilenet(trainable="none").trainable_weights == []
    assert mobilenet(trainable=False).trainable_weights == []
    assert len(mobilenet().trainable_weights) == len(plain_mobilenet().trainable_weights)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [("conv_pw_1", {"conv_pw_1"}), (["conv_dw_13", "conv_pw_13"], {"conv_dw_13", "conv_pw_13"})],
)
def test_stages_are_fine_tuned_and_the_rest_is_frozen(stages, expected):
    backbone = mobilenet(trainable=stages)
    layers = {variable.path.partition("/")[0] for variable in backbone.trainable_weights}
    assert layers == expected | {f"{name}_bn" for name in expected}  # and not conv_pw_10


PAIR = {"source": IMAGES, "target": 255 - IMAGES}, np.array([0, 1, 2, 1])


def of_stage(weights, stage):
    return {w.path: keras.ops.convert_to_numpy(w) for w in weights if w.path.startswith(stage)}


def test_frozen_layers_and_their_moving_statistics_stay_in_a_fit_and_in_a_file(tmp_path):
    backbone = mobilenet(trainable="conv_pw_13")
    for variable in backbone.weights:
        if variable.path.endswith("moving_variance"):  # else a random network fades its inputs out
            variable.assign(0.01 * np.ones(variable.shape))
    model = dann.DANN(backbone, num_classes=3)
    model.compile("sgd", jit_compile=False)
    before = of_stage(backbone.weights, "")
    model.fit(*PAIR, batch_size=2, verbose=0)
    after = of_stage(backbone.weights, "")
    changed = {path for path in before if (before[path] != after[path]).any()}
    assert changed == set(of_stage(backbone.weights, "conv_pw_13"))
    assert "conv_pw_13_bn/moving_mean" in changed
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
