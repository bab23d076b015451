"""Measures the Jacobians of classifier and backbone with respect to their inputs."""

from typing import Any

import numpy as np
from keras import ops
from scipy import stats

from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.diagnostics.passes import DOMAINS, check_method, to_float64

_DENSE = 128  # number of outputs or inputs up to which the whole Jacobian is computed
_BUDGET = 2**28  # bytes of the Jacobians of one domain


def jacobians(
    model: Any, data: Any, samples: int = 16, k: int = 10, seed: int = 0
) -> dict[str, Any]:
    """Measures the sensitivity of the outputs to the inputs, and the rank of the features.

    With the Jacobians `J` of the logits and of the features with respect to one input, averaged
    over examples:

    - `jacobian/<domain>/<logits or features>/norm`: `||J||_F`; `.../singular_values`: in descending
      order; `.../top`: the largest singular value
    - `jacobian/target_to_source`: the norm for the logits on the target, divided by the norm for
      the logits on the source
    - `rank/<domain>/effective_rank`: effective rank of the centered features of the batch, see
      `effective_rank`; `rank/<domain>/rank_share`: the same divided by the largest possible rank,
      `min(batch - 1, num_features)`

    Layers run in inference, because batch statistics would couple the examples. The derivative of a
    binary layer is its estimator. The whole Jacobian is computed if it has at most 128 rows or
    columns and fits into 256 MiB; otherwise its `k` largest singular values by
    Golub-Kahan-Lanczos, and its norm by random projections, to a few percent.

    Args:
        model: Model of `dann.adaptation`.
        data: One batch, as in every diagnostic.
        samples: Number of examples of each domain whose Jacobians are computed. Defaults to `16`.
        k: Number of singular values, if not all are computed. Defaults to `10`.
        seed: Seed of the random projections. Defaults to `0`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If the backbone has several inputs, or its features are maps.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import jacobians
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> measurements = jacobians(model, ({"source": x, "target": 2 * x}, np.arange(8) % 2))
    >>> measurements["jacobian/source/logits/top"] <= measurements["jacobian/source/logits/norm"]
    True

    Reference:
        - [Novak et al., 2018](https://arxiv.org/abs/1802.08760), section 3: the norm.
        - [Jing et al., 2022](https://arxiv.org/abs/2110.09348), section 3: dimensional collapse.
        - [Chen et al., 2019](https://proceedings.mlr.press/v97/chen19i.html): few dominant
          directions of the features hurt the classes.
    """
    check_method(model, compiled=False, flat=True)
    networks = {
        "logits": (model.classifier, model.num_classes),
        "features": (model.backbone, model.feature_shape[-1]),
    }
    measurements = {}
    for domain in DOMAINS:
        inputs = as_floats(data[0][domain])
        for name, (network, num_outputs) in networks.items():
            norms, values = measure_sensitivity(network, num_outputs, inputs[:samples], k, seed)
            prefix = f"jacobian/{domain}/{name}"
            measurements[f"{prefix}/norm"] = float(norms.mean())
            measurements[f"{prefix}/top"] = float(values[:, 0].mean())
            measurements[f"{prefix}/singular_values"] = values.mean(axis=0)
        features = to_float64(model.backbone(inputs, training=False))
        rank = effective_rank(np.linalg.svd(features - features.mean(axis=0), compute_uv=False))
        measurements[f"rank/{domain}/effective_rank"] = rank
        max_rank = max(1, min(len(features) - 1, features.shape[1]))  # centering removes one
        measurements[f"rank/{domain}/rank_share"] = rank / max_rank
    source, target = (measurements[f"jacobian/{domain}/logits/norm"] for domain in DOMAINS)
    if source:
        measurements["jacobian/target_to_source"] = target / source
    return measurements


def as_floats(inputs: Any) -> np.ndarray:
    """Returns inputs as floats, because images in bytes have no derivative.

    Raises:
        ValueError: If there are several inputs.
    """
    if isinstance(inputs, dict | list | tuple):
        raise ValueError(f"Expected a network with one input. Received: {len(inputs)} inputs")
    return np.asarray(ops.convert_to_numpy(inputs), "float32")


def measure_sensitivity(
    network: Any, num_outputs: int, inputs: np.ndarray, k: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the Frobenius norm of each example's Jacobian, and its largest singular values.

    Shapes are `(batch,)` and `(batch, rank)`, or `(batch, k)` for a large Jacobian.
    """
    num_inputs = int(np.prod(inputs.shape[1:]))
    smaller = min(num_outputs, num_inputs)
    # 4 bytes per float32 number, (batch, outputs, inputs)
    if 4 * len(inputs) * num_outputs * num_inputs <= _BUDGET and smaller <= _DENSE:
        jacobian = to_float64(batch_jacobian(network, inputs))
        matrices = jacobian.reshape(len(inputs), -1, num_inputs)
        values = np.linalg.svd(matrices, compute_uv=False)
        return np.linalg.norm(values, axis=1), values
    norms = frobenius_norm(network, inputs, seed=seed)[0]
    values = singular_values(network, inputs, min(k, smaller), seed=seed)
    return to_float64(norms), to_float64(values)


def effective_rank(singular_values: np.ndarray) -> float:
    """Returns the effective rank of a matrix, a real number from 1 to its rank.

    It is `exp(H(p))` with `p = s / sum s` and the entropy `H`, and 0 for a matrix of zeros.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics.jacobians import effective_rank
    >>> round(effective_rank(np.array([2.0, 2.0, 0.0])), 6)
    2.0

    Reference:
        - [Roy and Vetterli, 2007](https://ieeexplore.ieee.org/document/7098875), section 2.
    """
    return float(np.exp(stats.entropy(singular_values))) if np.any(singular_values) else 0.0
