import keras
import pytest

from dann import networks
from dann.networks import application_backbone

SHAPE = (32, 32, 3)
REFUSED = [
    (networks.mnist_backbone, {"input_shape": (64,)}),
    (networks.cnn_backbone, {"input_shape": (7, 8, 3)}),
    (networks.lenet_backbone, {"input_shape": (15, 28, 1)}),
    (networks.svhn_backbone, {"input_shape": (28, 28, 3)}),
    (networks.binary_resnet_backbone, {"input_shape": (3, 8, 1)}),
    (networks.time_series_backbone, {"input_shape": (28, 28, 3)}),
    (
        networks.time_series_backbone,
        {"input_shape": (9, 2), "kernel_sizes": (3,)},
    ),
    (networks.mnist_backbone, {"input_range": (1, 1)}),
    (networks.lenet_backbone, {"initializer": "jax"}),
    (networks.cnn_backbone, {"input_shape": (8, 8, 1), "dropout": 1.5}),
    (networks.binary_mlp_backbone, {"input_shape": (3,), "first_layer": "int8"}),
    (networks.label_head, {"num_features": 6, "num_classes": 1}),
    (networks.label_head, {"num_features": 6, "num_classes": 4, "hidden_units": (3, 0)}),
    (networks.binary_label_head, {"num_features": 4, "num_classes": 1}),
    (application_backbone, {"input_shape": SHAPE, "name": "ResNet5"}),
    (application_backbone, {"input_shape": SHAPE, "name": "preprocess_input"}),
    (application_backbone, {"input_shape": (32, 32, 1)}),
    (application_backbone, {"input_shape": (31, 32, 3)}),
    (application_backbone, {"input_shape": SHAPE, "pooling": "max_pool"}),
    (application_backbone, {"input_shape": SHAPE, "name": "MobileNet", "trainable": "conv9"}),
    (
        application_backbone,
        {"input_shape": SHAPE, "name": "MobileNet", "trainable": ("conv1", "a")},
    ),
]


@pytest.mark.parametrize(("make", "arguments"), REFUSED)
def test_arguments_that_make_no_network_are_refused(make, arguments):
    with pytest.raises(ValueError, match=r"Received|at least 32|must|dropout|zip"):
        make(**arguments)


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_a_file_of_weights_that_does_not_fit_is_refused(tmp_path):
    wider = keras.applications.MobileNet(SHAPE, 0.5, include_top=False, weights=None)
    wider.save_weights(tmp_path / "wider.weights.h5")
    with pytest.raises(ValueError, match="shape"):
        application_backbone(SHAPE, "MobileNet", tmp_path / "wider.weights.h5", alpha=0.25)
