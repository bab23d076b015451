"""How several devices share the weights of a model, on JAX."""

from collections.abc import Sequence

import keras
import numpy as np

SPLIT = ("kernel", "bias")


class SplitWeights(keras.distribution.ModelParallel):
    """Splits weights over the devices of a group, and each batch over the groups.

    Its layout map has one rule, which holds for any model: a variable whose name ends in `kernel`
    or `bias` is split along its last axis, if the size of a group divides it. In dense layers and
    convolutions that axis is the outputs, in transposed convolutions the inputs of a kernel, in
    depthwise ones the outputs of each channel. Everything else is whole on each device: sizes that
    do not divide, the vectors of normalization, embeddings, the state of a method or a metric.
    Variables that an optimizer keeps of a weight lie as the weight does.

    Keras's `LayoutMap` asks for the path of each variable alone; this rule needs its shape too.

    Args:
        names: The devices, as `keras.distribution.list_devices` names them.
        size: Number of devices in a group, which divides that of all devices.
    """

    def __init__(self, names: Sequence[str], size: int):
        shape = len(names) // size, size
        mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"), np.array(names))
        super().__init__(layout_map=keras.distribution.LayoutMap(mesh), auto_shard_dataset=False)
        self.size = size

    def get_variable_layout(self, variable: keras.Variable) -> keras.distribution.TensorLayout:
        """Returns the layout of a variable: its own, or else that of the rule above."""
        own = super().get_variable_layout(variable)
        if getattr(variable, "_layout", None) is not None or not self._splits(variable):
            return own
        axes = [None] * (len(variable.shape) - 1) + ["model"]
        return keras.distribution.TensorLayout(axes, self.device_mesh)

    def _splits(self, variable):
        shape = variable.shape
        return variable.name.endswith(SPLIT) and len(shape) > 0 and shape[-1] % self.size == 0
