import pytest

from dann import networks
from dann.networks import application_backbone

SHAPE = (32, 32, 3)
RGB = {"input_shape": SHAPE}
REFUSED = [
    (networks.mnist_backbone, {"input_shape": (64,)}),
    (networks.lenet_backbone, {"input_shape": (15, 28, 1)}),
    (networks.binary_resnet_backbone, {"input_shape": (3, 8, 1)}),
    (networks.time_series_backbone, {"input_shape": (9, 2), "kernel_sizes": (3,)}),
    (networks.mnist_backbone, {"input_range": (1, 1)}),
    (networks.lenet_backbone, {"initializer": "jax"}),
    (networks.binary_mlp_backbone, {"input_shape": (3,), "first_layer": "int8"}),
    (networks.label_head, {"num_features": 6, "num_classes": 1}),
    (networks.binary_label_head, {"num_features": 4, "num_classes": 1}),
    (application_backbone, RGB | {"name": "preprocess_input"}),
    (application_backbone, {"input_shape": (32, 32, 1)}),
    (application_backbone, RGB | {"pooling": "max_pool"}),
    (application_backbone, RGB | {"name": "MobileNet", "trainable": ("conv1", "a")}),
]


@pytest.mark.parametrize(("make", "arguments"), REFUSED)
def test_arguments_that_make_no_network_are_refused(make, arguments):
    with pytest.raises(ValueError, match=r"Received|zip"):
        make(**arguments)
