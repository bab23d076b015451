import pytest

from dann import networks
from dann.networks import application_backbone

RGB = {"input_shape": (32, 32, 3)}
REFUSED = {  # a function, its arguments, and words of the error
    "vector": (networks.mnist_backbone, {"input_shape": (64,)}, "use `mlp_backbone`"),
    "height": (networks.lenet_backbone, {"input_shape": (15, 28, 1)}, "height.*16.*15"),
    "range": (networks.mnist_backbone, {"input_range": (1, 1)}, "input_range"),
    "initializer": (networks.lenet_backbone, {"initializer": "jax"}, "'keras', 'torch'"),
    "first layer": (
        networks.binary_mlp_backbone,
        {"input_shape": (3,), "first_layer": "int8"},
        "'float', 'binary_kernel', 'binary'",
    ),
    "classes": (networks.label_head, {"num_features": 6, "num_classes": 1}, "for regression"),
    "application": (application_backbone, RGB | {"name": "preprocess_input"}, "`name`"),
    "gray images": (application_backbone, {"input_shape": (32, 32, 1)}, "RGB images"),
    "stage": (
        application_backbone,
        RGB | {"name": "MobileNet", "trainable": ("conv1", "a")},
        "such as .*'conv'.*Received: 'a'",
    ),
}


@pytest.mark.parametrize(("make", "arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_are_refused(make, arguments, words):
    with pytest.raises(ValueError, match=words):
        make(**arguments)
