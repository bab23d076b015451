"""A warning for inputs outside the range that a network expects.

`fit` checks its inputs and arrays of `validation_data`, until the model has warned once;
`train_on_batch` checks the first batch. `evaluate` and `predict` check nothing, because few inputs
can vary little although their scale is right.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import is_pair, select_parts
from dann.adaptation.networks import get_graph
from dann.data.examples import is_dataset
from dann.data.pairs import Pairs

_MAX_ROWS = 64


def warn_about_scale(network: Any, data: Any) -> bool:
    """Warns if inputs are outside the range that the network expects.

    The first layers of a network rescale its inputs `x` to `scale * x + offset`. They are the
    layers and operations before the first layer with weights, except `Normalization`. The center of
    the expected range is `-offset / scale`. Half its width is `1 / scale`, or for images the center
    if that is larger, because some applications of Keras only subtract the mean color. The inputs
    of a domain fit if their standard deviation is from 0.01 to 10 times half the width. If the
    first layers change nothing and a dense or convolutional layer follows, the standard deviation
    must be at most 10. Otherwise training could stay at chance.

    Args:
        network: Backbone.
        data: Pairs, a dict by domain, an array-like `(n, ...)`, a tuple of one of these and labels,
            or a dataset of batches of these. At most 64 rows of each domain are read, of a dataset
            from its first batch. Generators and networks with several inputs are not checked.

    Returns:
        Whether there was a warning.
    """
    for inputs in _list_inputs(data):
        sample: Any = ops.convert_to_numpy(inputs[:: -(-len(inputs) // _MAX_ROWS)])
        if sample.dtype.kind not in "biuf":
            continue
        low, high, deviation = (float(f(sample)) for f in (np.min, np.max, np.std))
        try:
            center, half_width, action = _find_range(network, sample.shape[1:])
        except ValueError:  # a wrong shape, which `fit` refuses
            continue
        is_too_small = center is not None and deviation < 0.01 * half_width
        if low < high and (is_too_small or deviation > 10 * half_width):
            warnings.warn(
                f"the inputs are from {low:.3g} to {high:.3g} with standard deviation "
                f"{deviation:.3g}, but the network {action}. Rescale the inputs, or build the "
                "network with the smallest and largest input as `input_range` (in scripts "
                "++network.backbone.input_range=[0,1]), or standardize inputs for a network that "
                "does not rescale (`input_range=None` of `mlp_backbone`; in scripts "
                "network=tabular)",
                stacklevel=4,
            )
            return True
    return False


def _find_range(network, shape):
    """Returns the center of the expected range, half its width, and a description.

    The center is `None` if the inputs are not rescaled, and the width infinite if it is unknown.
    """
    # Three constant inputs, 0, 1 and 2, `(3, *shape)`
    constants = np.ones((3, *shape), "float32") * np.arange(3.0).reshape(3, *(1 for _ in shape))
    values, layer = _run_first_layers(network, constants.astype("float32"))
    offset, slope = float(np.median(values[0])), float(np.median(values[1] - values[0]))
    if (offset, slope) == (0, 1):
        return None, 1 if hasattr(layer, "kernel") else np.inf, "does not rescale them"
    center, half_width = -offset / slope, 1 / abs(slope)
    half_width = max(half_width, abs(center)) if len(shape) == 3 else half_width
    low, high = center - half_width, center + half_width
    return center, half_width, f"expects inputs from about {low:.3g} to {high:.3g}"


def _run_first_layers(network, values) -> tuple[Any, Any]:
    """Returns the inputs of the first layer with weights, and the layer.

    Layers whose outputs are not a linear function of constant inputs, such as an instance
    normalization, also end the search, and so do several inputs; the layer is then `network`. It is
    `None` if the network has no layer with weights.
    """
    graph: Any = get_graph(network)
    if not graph:  # the order of the layers of a subclass is unknown
        layers = [*getattr(network, "layers", ())]
        rescale = next((x for x in layers if isinstance(x, keras.layers.Rescaling)), None)
        return ops.convert_to_numpy(rescale(values)) if rescale else values, network
    inputs, outputs = graph
    if len(keras.tree.flatten(inputs)) > 1:
        return values, network
    inputs = keras.tree.flatten(inputs)[0]
    # The public `operations` do not show which tensors each call receives.
    nodes = keras.Function(inputs, outputs)._nodes_by_depth
    previous_values = values
    for node in (node for depth in sorted(nodes, reverse=True) for node in nodes[depth]):
        layer = node.operation
        if node.is_input:
            continue
        first_layers = keras.Model(inputs, node.input_tensors[0], name=network.name)
        layer_inputs = ops.convert_to_numpy(first_layers(values, training=False))
        if not _is_slope_constant(layer_inputs):
            return previous_values, network
        previous_values = layer_inputs
        if hasattr(layer, "layers"):
            layer_inputs, layer = _run_first_layers(layer, layer_inputs)
            if layer is not None:
                return layer_inputs, layer
        elif getattr(layer, "weights", ()) and not isinstance(layer, keras.layers.Normalization):
            return layer_inputs, layer
    return previous_values, None


def _is_slope_constant(values):
    """Returns whether the outputs for the inputs 0, 1 and 2 have one slope, which is not 0."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        first, second = values[1] - values[0], values[2] - values[1]
    return np.median(first) != 0 and np.allclose(first, second, rtol=0.02, atol=1e-6)


def _list_inputs(data: Any) -> list[Any]:
    """Returns inputs of each domain that are one array."""
    if isinstance(data, Pairs):
        parts = [domain.inputs for domain in data.domains.values()]
    else:
        if is_dataset(data):
            # To read a generator would remove its first batch.
            data = None if isinstance(data, Iterator) else next(iter(data), None)
        data = data[0] if isinstance(data, tuple | list) else data
        parts = select_parts(data).values() if is_pair(data) else [data]
    arrays = [leaves[0] for part in parts if len(leaves := keras.tree.flatten(part)) == 1]
    return [array for array in arrays if len(getattr(array, "shape", ())) > 1 and len(array)]
