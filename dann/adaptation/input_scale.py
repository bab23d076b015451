"""A warning for inputs outside the range that a network expects."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import is_pair, select_parts
from dann.data.pairs import Pairs

_MAX_ROWS = 64
_STRUCTURAL = keras.layers.InputLayer, keras.layers.Flatten, keras.layers.Reshape


def warn_about_scale(network: Any, data: Any) -> None:
    """Warns if inputs of `fit` are outside the range that the network expects.

    The expected range follows from the first `Rescaling` layer of the network, or from a dense or
    convolutional layer that receives the inputs unchanged. After a rescaling, the standard
    deviation of the inputs of a domain must be from 0.01 to 10; before a dense or convolutional
    layer, it must be at most 10. For example, bytes divided by 127.5 are in this range, but numbers
    from 0 to 1 divided by 127.5 are not, and training could stay at chance.

    Args:
        network: Backbone.
        data: Pairs, a dict by domain, or an array-like `(n, ...)`. At most 64 rows of each domain
            are read. Datasets, and networks with several inputs, are not checked.
    """
    scale, lowest = _find_scale(network)
    for inputs in _list_inputs(data) if scale else ():
        sample: Any = ops.convert_to_numpy(inputs[:: -(-len(inputs) // _MAX_ROWS)])
        if sample.dtype.kind not in "biuf":
            continue
        low, high, deviation = (float(f(sample)) for f in (np.min, np.max, np.std))
        if low < high and not lowest <= deviation * scale <= 10:
            action = f"first divides them by {1 / scale:.4g}" if lowest else "does not rescale them"
            warnings.warn(
                f"the inputs are from {low:.3g} to {high:.3g} with standard deviation "
                f"{deviation:.3g}, but the network {action}. Build the network with the "
                "smallest and largest input as `input_range` (in scripts ++network.backbone."
                "input_range=[0,1]), or standardize inputs for a network that does not rescale "
                "(`input_range=None` of `mlp_backbone`; in scripts network=tabular)",
                stacklevel=3,
            )
            return


def _find_scale(network):
    """Returns the factor of the inputs, 0 if unknown, and the smallest scaled deviation."""
    graph = list(_iterate_graph(network))
    for layer in graph or getattr(network, "layers", ()):
        if isinstance(layer, keras.layers.Rescaling):
            return float(np.mean(layer.scale)), 0.01
    first = next((layer for layer in graph if not isinstance(layer, _STRUCTURAL)), None)
    return float(hasattr(first, "kernel")), 0.0


def _iterate_graph(network):
    """Yields the layers and operations of a functional or sequential model in order."""
    is_sequential = isinstance(network, keras.Sequential)
    for layer in network.layers if is_sequential else getattr(network, "operations", ()):
        if isinstance(layer, keras.Sequential) or hasattr(layer, "operations"):
            yield from _iterate_graph(layer)
        else:
            yield layer


def _list_inputs(data: Any) -> list[Any]:
    """Returns the inputs of each domain that are one array in memory or on disk."""
    if isinstance(data, Pairs):
        examples = [getattr(domain, "examples", None) for domain in data.domains.values()]
        parts = [domain.columns["inputs"] for domain in examples if domain]
    else:
        parts = select_parts(data).values() if is_pair(data) else [data]
    return [part for part in parts if hasattr(part, "shape") and len(part)]
