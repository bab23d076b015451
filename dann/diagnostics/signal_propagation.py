"""How values and derivatives travel through the layers of a backbone."""

from typing import Any

import keras
import numpy as np

from dann.adaptation.networks import get_graph
from dann.diagnostics.jacobians import as_floats, sensitivity
from dann.diagnostics.passes import DOMAINS, adversarial, part_between, to_numpy
from dann.diagnostics.straight_through_health import has_single


def signal_propagation(model: Any, data: Any, samples: int = 8, seed: int = 0) -> dict[str, float]:
    """Measures the outputs of each layer and how the features follow them.

    - `signal/<domain>/<layer>/std`, `.../zero`: standard deviation of the layer's outputs, and
      share of them that are 0
    - `signal/<domain>/<layer>/gain`: `sqrt(mean ||J||_F^2 / num_features)` with the Jacobian `J` of
      the features with respect to these outputs
    - `signal/<domain>/gain_range`: the largest gain divided by the smallest

    Layers inside a residual or parallel branch have no `gain`, because something flows past them.
    Layers work as in inference. Jacobians are computed as in `jacobians`.

    Args:
        samples: Number of examples of each domain. Defaults to `8`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import signal_propagation
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> found = signal_propagation(model, ({"source": x, "target": x}, np.arange(8) % 2))
    >>> len({name.split("/")[2] for name in found}) == len(model.backbone.layers) - 1
    True

    Reference:
        - [Saxe et al., 2014](https://arxiv.org/abs/1312.6120), section 3.
        - [Pennington et al., 2017](https://arxiv.org/abs/1711.04735): singular values of the
          input-output Jacobian near 1, dynamical isometry.
    """
    graph = get_graph(adversarial(model, compiled=False, flat=True).backbone)
    if graph is None:
        raise ValueError(
            "This diagnostic follows the layers of a functional or sequential backbone. "
            f"Received: {type(model.backbone).__name__}"
        )
    layers = [layer for layer in model.backbone.layers if has_single(layer, "output")]
    watched = keras.Model(graph[0], [layer.output for layer in layers])
    inner = [None if layer.output is graph[1] else layer.output for layer in layers]
    rests = [None if output is None else part_between(output, graph[1]) for output in inner]
    found = {}
    for domain in DOMAINS:
        inputs, gains = as_floats(data[0][domain])[:samples], []
        outputs = keras.tree.flatten(watched(inputs, training=False))
        for layer, rest, values in zip(layers, rests, map(to_numpy, outputs), strict=True):
            prefix = f"signal/{domain}/{layer.name}"
            found[f"{prefix}/std"] = float(values.std())
            found[f"{prefix}/zero"] = float(np.mean(values == 0))
            if rest is not None:
                count = model.feature_shape[-1]
                norms, _ = sensitivity(rest, count, values.astype("float32"), 1, seed)
                gains.append(float(np.sqrt((norms**2).mean() / count)))
                found[f"{prefix}/gain"] = gains[-1]
        if gains:
            found[f"signal/{domain}/gain_range"] = max(gains) / max(min(gains), 1e-30)
    return found
