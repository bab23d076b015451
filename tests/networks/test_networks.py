import keras
import numpy as np
import pytest

from dann.networks import cnn_backbone, domain_head, label_head, mlp_backbone, mnist_backbone

NETWORKS = {
    "mnist": (lambda: mnist_backbone((28, 28, 3)), (28, 28, 3), 768),
    "cnn": (
        lambda: cnn_backbone((16, 16, 1), filters=(4, 8), units=6, dropout=0.5),
        (16, 16, 1),
        6,
    ),
    "mlp": (lambda: mlp_backbone((5, 2), hidden_units=(4, 3), dropout=0.5), (5, 2), 3),
    "label_head": (lambda: label_head(6, 4, hidden_units=(5,), dropout=0.5), (6,), 4),
    "domain_head": (lambda: domain_head(6), (6,), 1),
}
each_network = pytest.mark.parametrize("name", NETWORKS)


@each_network
def test_it_gives_flat_outputs_of_the_promised_length(name):
    make, shape, features = NETWORKS[name]
    model = make()
    assert model.output_shape == (None, features)
    assert model.predict(np.zeros((2, *shape)), verbose=0).shape == (2, features)


@each_network
def test_it_comes_back_from_a_file(name, tmp_path):
    make, shape, _ = NETWORKS[name]
    model = make()
    inputs = np.random.default_rng(0).uniform(0, 255, (3, *shape))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_array_equal(
        again.predict(inputs, verbose=0), model.predict(inputs, verbose=0)
    )


def test_the_papers_mnist_architecture_has_the_papers_parameters():
    # Convolutions 5x5: 3 to 32 and 32 to 48 channels; figure 4a of the paper.
    assert mnist_backbone().count_params() == (5 * 5 * 3 + 1) * 32 + (5 * 5 * 32 + 1) * 48
    assert label_head(768, 10).count_params() == 769 * 100 + 101 * 100 + 101 * 10
    assert domain_head(768).count_params() == 769 * 100 + 101


@pytest.mark.parametrize(("input_range", "pixels"), [((0, 255), [0, 255]), ((-1, 3), [-1, 3])])
def test_pixels_are_mapped_to_minus_one_and_one(input_range, pixels):
    rescaling = mnist_backbone(input_range=input_range).layers[1]
    scaled = keras.ops.convert_to_numpy(rescaling(np.array(pixels, "float32")))
    np.testing.assert_allclose(scaled, [-1, 1], atol=1e-6)


def test_a_perceptron_scales_its_inputs_only_if_told_to():
    pixels = np.array([[0.0, 255.0]])
    for input_range, expected in ((None, [0.0, 255.0]), ((0, 255), [-1.0, 1.0])):
        backbone = mlp_backbone((2,), hidden_units=(3,), input_range=input_range)
        before_dense = keras.Model(backbone.input, backbone.layers[-1].input)
        scaled = before_dense.predict(pixels, verbose=0)[0]
        np.testing.assert_allclose(scaled, expected, atol=1e-6)


def test_bytes_and_floats_give_the_same_features():
    backbone = mnist_backbone()
    images = np.random.default_rng(0).integers(0, 256, (2, 28, 28, 3)).astype("uint8")
    as_floats = backbone.predict(images.astype("float32"), verbose=0)
    np.testing.assert_array_equal(backbone.predict(images, verbose=0), as_floats)


def test_logits_stay_in_single_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    assert label_head(6, 4).outputs[0].dtype == "float32"
    assert domain_head(6).outputs[0].dtype == "float32"


def test_an_empty_input_range_is_refused():
    with pytest.raises(ValueError, match=r"in this order. Received: input_range=\(1, 1\)"):
        mnist_backbone(input_range=(1, 1))


def test_fewer_than_two_classes_are_refused():
    with pytest.raises(ValueError, match="at least 2. Received: num_classes=1"):
        label_head(6, 1)


def test_a_perceptron_without_layers_is_refused():
    with pytest.raises(ValueError, match="at least one layer. Received: none"):
        mlp_backbone((3,), hidden_units=())
