"""The backbones by the names of their configs."""

from collections.abc import Callable

import keras

from dann.registry import Registry

# The fact `example` holds the arguments of a small one, for tests.
NETWORKS: Registry[Callable[..., keras.Model]] = Registry("network")
