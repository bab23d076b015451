"""Measures outputs and gradients along the layers of a backbone."""

from typing import Any

import keras
import numpy as np

from dann.adaptation.networks import get_graph
from dann.diagnostics.jacobians import as_floats, measure_sensitivity
from dann.diagnostics.passes import DOMAINS, check_method, to_float64
from dann.diagnostics.straight_through_health import has_single


def signal_propagation(model: Any, data: Any, samples: int = 8, seed: int = 0) -> dict[str, float]:
    """Measures the outputs of each layer and the sensitivity of the features to them.

    - `signal/<domain>/<layer>/std`, `.../zero`: standard deviation of the outputs of the layer, and
      fraction of the outputs that are 0
    - `signal/<domain>/<layer>/gain`: `sqrt(mean ||J||_F^2 / num_features)` with the Jacobian `J` of
      the features with respect to these outputs
    - `signal/<domain>/gain_range`: the largest gain divided by the smallest

    Layers inside a residual or parallel branch have no `gain`, because the features do not depend
    on them alone. Layers run in inference. `jacobians` documents how the Jacobians are estimated.

    Args:
        model: Model of `dann.adaptation` with a functional or sequential backbone.
        data: One batch, as in every diagnostic.
        samples: Number of examples of each domain. Defaults to `8`.
        seed: Seed of the random projections. Defaults to `0`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If the backbone is neither functional nor sequential or has several inputs, or
            its features are maps.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import signal_propagation
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> measurements = signal_propagation(model, ({"source": x, "target": x}, np.arange(8) % 2))
    >>> len({name.split("/")[2] for name in measurements}) == len(model.backbone.layers) - 1
    True

    Reference:
        - [Saxe et al., 2014](https://arxiv.org/abs/1312.6120), section 3.
        - [Pennington et al., 2017](https://arxiv.org/abs/1711.04735): singular values of the
          input-output Jacobian near 1, dynamical isometry.
    """
    graph = get_graph(check_method(model, compiled=False, flat=True).backbone)
    if graph is None:
        name = type(model.backbone).__name__
        raise ValueError(f"Expected a functional or sequential backbone. Received: {name}")
    layers = [layer for layer in model.backbone.layers if has_single(layer, "output")]
    monitor = keras.Model(graph[0], [layer.output for layer in layers])
    heads = [_build_network_after(layer, graph[1]) for layer in layers]
    measurements = {}
    for domain in DOMAINS:
        inputs, gains = as_floats(data[0][domain])[:samples], []
        outputs = keras.tree.flatten(monitor(inputs, training=False))
        for layer, head, values in zip(layers, heads, map(to_float64, outputs), strict=True):
            prefix = f"signal/{domain}/{layer.name}"
            measurements[f"{prefix}/std"] = float(values.std())
            measurements[f"{prefix}/zero"] = float(np.mean(values == 0))
            if head is not None:
                # sqrt(mean ||J||_F^2 / num_features) over the examples
                count = model.feature_shape[-1]
                norms, _ = measure_sensitivity(head, count, values.astype("float32"), 1, seed)
                gains.append(float(np.sqrt((norms**2).mean() / count)))
                measurements[f"{prefix}/gain"] = gains[-1]
        if gains:
            # The smallest gain may be 0.
            measurements[f"signal/{domain}/gain_range"] = max(gains) / max(min(gains), 1e-30)
    return measurements


def _build_network_after(layer, features):
    """Returns the network from a layer to the features, or `None` if it needs other tensors."""
    if layer.output is features:
        return None
    try:
        # A `keras.Model` would add nodes to the user's layers.
        return keras.Function(layer.output, features)
    except ValueError:
        return None
