"""How several devices share the weights of a model, on JAX."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation.replicas import each_device_alone

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
        size: Number of devices in a group, which divides that of each process.
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

    def of_first_group(self, value: Any) -> Any:
        """Returns the parts of an array that the first group of this process holds, without a copy.

        What is no array of these devices it returns as it is.
        """
        import jax  # pyright: ignore[reportMissingImports]

        mesh = self.device_mesh.backend_mesh
        layout = getattr(value, "sharding", None)
        if not isinstance(layout, jax.sharding.NamedSharding) or layout.mesh != mesh:
            return value
        devices = next(
            group for group in mesh.devices if group[0].process_index == jax.process_index()
        )
        first = jax.sharding.Mesh(devices, ("model",))
        held = {shard.device: shard.data for shard in value.addressable_shards}
        return jax.make_array_from_single_device_arrays(
            value.shape,
            jax.sharding.NamedSharding(first, layout.spec),
            [held[device] for device in devices],
        )

    def _splits(self, variable):
        shape = variable.shape
        return variable.name.endswith(SPLIT) and len(shape) > 0 and shape[-1] % self.size == 0


@contextlib.contextmanager
def in_first_group(model: keras.Model) -> Iterator[None]:
    """Lets the first group of devices compute with a model that several groups train.

    With split weights, XLA (jaxlib 0.10) miscompiles some convolutions where several groups compute
    the same examples. In training each group has its part of a batch, which it computes rightly;
    everything else belongs in this block. What the block assigns to the model, all groups get.
    Without several groups that share weights, the block changes nothing.
    """
    distribution = keras.distribution.distribution()
    if not isinstance(distribution, SplitWeights) or distribution.num_model_replicas == 1:
        yield
        return
    state = getattr(model, "_jax_state", None)
    training = bool(state) and not getattr(model, "_jax_state_synced", True)
    kept = []
    for variable in variables_of(model):  # without values within an epoch
        part = distribution.of_first_group(variable._value)
        kept.append((variable, variable._layout, variable._value, part))
        variable._layout, variable._value = None, part
    if training:
        model._jax_state = keras.tree.map_structure(distribution.of_first_group, state)
    try:
        with each_device_alone():
            yield
    finally:
        for variable, layout, value, part in kept:
            variable._layout = layout
            if variable._value is part:
                variable._value = value
            elif layout is not None:
                variable._direct_assign(variable._value)
        if training and not model._jax_state_synced:
            model._jax_state = state


def variables_of(model: keras.Model) -> list[Any]:
    """Returns all variables of a model: weights, seeds, optimizer and metrics, once."""
    optimizer = getattr(model, "optimizer", None)
    its = [] if optimizer is None else optimizer.variables
    every = [*model.variables, *its, *model.metrics_variables]
    return list({id(variable): variable for variable in every}.values())
