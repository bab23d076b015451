"""Images of several sources, brought to one size and channel count."""

from typing import Any

import tensorflow as tf


def unify(image: Any, size: tuple[int, int], channels: int) -> Any:
    """Brings an image to a size and a channel count; what fits already is left bit for bit.

    Size: bilinear interpolation, antialiased where it shrinks, the aspect not kept. Channels: grey
    is repeated, colour becomes its luma. Values are rounded to bytes.

    Args:
        image: Image, uint8 `(height, width, channels)`, with 1 or 3 channels.
        size: Height and width that are wanted.
        channels: 1 or 3.

    Returns:
        Image, uint8 `(*size, channels)`.
    """
    if image.shape[-1] == 3 and channels == 1:
        image = tf.image.rgb_to_grayscale(image)
    if tuple(image.shape[:2]) != tuple(size):
        resized = tf.image.resize(image, size, antialias=True)
        image = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
    if image.shape[-1] == 1 and channels == 3:
        image = tf.repeat(image, 3, axis=-1)
    return image
