"""How values and derivatives travel through the layers of a backbone."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.networks import graph_of
from dann.autodiff import frobenius_norm, singular_values
from dann.diagnostics.catalogue import ADVERSARIAL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.losses import check_flat
from dann.diagnostics.instruments.vectors import to_numpy
from dann.diagnostics.jacobians import DOMAINS, all_singular_values, as_floats, is_whole


@DIAGNOSTICS.register(
    "signal",
    models=ADVERSARIAL,
    order=80,
    healthy=(
        HealthyRange(
            "signal/target/gain_range",
            "Range of the layers' gains",
            "Largest divided by smallest gain from a layer to the features. Many orders of "
            "magnitude are derivatives that explode or vanish.",
            high=1000,
        ),
    ),
)
def signal_propagation(
    model: AdversarialModel, data: Any, samples: int = 8, seed: int = 0
) -> dict[str, float]:
    """Measures the outputs of each layer and how the features follow them.

    `docs/diagnostics.md` lists the measurements with their formulas and healthy values.

    Layers inside a residual or parallel branch have no `gain` and `top`, because something flows
    past them. Layers work as in inference. For large Jacobians `gain` is estimated with random
    projections, to a few percent.

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
    check_flat(model)
    graph = graph_of(model.backbone)
    if graph is None:
        raise ValueError(
            "This diagnostic follows the layers of a functional or sequential backbone. "
            f"Received: {type(model.backbone).__name__}"
        )
    layers = [layer for layer in model.backbone.layers if _is_measured(layer)]
    watched = keras.Model(graph[0], [layer.output for layer in layers])
    rests = {layer.name: _from(layer, graph[1]) for layer in layers}
    found = {}
    for domain in DOMAINS:
        inputs = as_floats(data[0][domain])[:samples]
        before, gains = inputs, []
        for layer, outputs in zip(layers, _listed(watched(inputs, training=False)), strict=True):
            values = np.asarray(ops.convert_to_numpy(outputs), "float32")
            of_layer = _statistics(values, before)
            rest = rests[layer.name]
            if rest is not None:
                of_layer.update(_sensitivity(rest, values, model.feature_shape[-1], seed))
                gains.append(of_layer["gain"])
            found.update(
                {f"signal/{domain}/{layer.name}/{key}": value for key, value in of_layer.items()}
            )
            before = values
        if gains:
            found[f"signal/{domain}/gain_range"] = max(gains) / max(min(gains), 1e-30)
    return found


def _is_measured(layer):
    try:
        single = keras.tree.flatten(layer.output) == [layer.output]
    except (AttributeError, ValueError):  # it is called in several places
        return False
    return single and not isinstance(layer, keras.layers.InputLayer)


def _listed(outputs):
    return outputs if isinstance(outputs, list | tuple) else [outputs]


def _from(layer, features):
    """The part of the backbone after a layer, or `None` if something flows past it."""
    if layer.output is features:
        return None
    try:
        # A model would add nodes to the user's layers, at every call.
        return keras.Function(layer.output, features)
    except ValueError:
        return None


def _statistics(values, before):
    size = float(np.sqrt(np.mean(np.square(values, dtype="float64"))))
    previous = float(np.sqrt(np.mean(np.square(before, dtype="float64"))))
    return {
        "mean": float(values.mean(dtype="float64")),
        "std": float(values.std(dtype="float64")),
        "zero": float(np.mean(values == 0)),
        "rms_ratio": size / previous if previous else 0.0,
    }


def _sensitivity(rest, values, num_features, seed):
    if is_whole(num_features, int(np.prod(values.shape[1:])), len(values)):
        all_values = all_singular_values(rest, values)
        squares, top = (all_values**2).sum(axis=1), all_values[:, 0]
    else:
        squares = to_numpy(frobenius_norm(rest, values, seed=seed)[0]) ** 2
        top = to_numpy(singular_values(rest, values, 1, seed=seed))[:, 0]
    return {"gain": float(np.sqrt(squares.mean() / num_features)), "top": float(top.mean())}
