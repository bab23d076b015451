"""The backbones by the names of their configs.

These arguments mean the same in every backbone of images:

- `input_shape`: height, width and channels of the images; the check says how small they may be
- `input_range`: smallest and largest pixel value, mapped to [-1, 1]
- `name`: name of the model

It returns a functional model from images `(batch, height, width, channels)`, integer or float, to
features `(batch, num_features)`, and raises a `ValueError` if the inputs are not images or are too
small.
"""

from collections.abc import Callable

import keras

from dann.registry import Registry

NETWORKS: Registry[Callable[..., keras.Model]] = Registry("network")
