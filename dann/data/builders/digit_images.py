"""What every builder of digits holds."""

import tensorflow_datasets as tfds


def digit_images(height: int, width: int, channels: int) -> dict:
    """Returns the part of a builder's information that tells of images of ten digits.

    Args:
        height: Height of the images.
        width: Width of the images.
        channels: 1 or 3.
    """
    features = {
        "image": tfds.features.Image(shape=(height, width, channels)),
        "label": tfds.features.ClassLabel(num_classes=10),
    }
    return {
        "features": tfds.features.FeaturesDict(features),
        "supervised_keys": ("image", "label"),
    }
