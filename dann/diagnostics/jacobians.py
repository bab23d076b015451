"""The Jacobians of classifier and backbone with respect to their inputs."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.diagnostics.catalogue import ADVERSARIAL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.losses import check_flat
from dann.diagnostics.instruments.vectors import to_numpy

DOMAINS = ("source", "target")

_WHOLE = 128  # up to so many outputs or inputs the whole Jacobian is computed
_BUDGET = 2**28  # bytes of the Jacobians of one domain
_ZERO = 1e-6  # of the largest singular value; smaller ones are rounding


@DIAGNOSTICS.register(
    "jacobians",
    models=ADVERSARIAL,
    order=70,
    may_be_infinite=("jacobian/target_to_source",),
    healthy=(
        HealthyRange(
            "jacobian/target_to_source",
            "Sensitivity on the target",
            "How strongly the logits follow the inputs on the target, in multiples of the source. "
            "Far above 1 the target lies where the network was not trained.",
            low=0.25,
            high=4,
        ),
        HealthyRange(
            "rank/target/rank_share",
            "Directions in use by the target's features",
            "Effective rank of the features, as a share of its maximum. Near 0 they have "
            "collapsed into a few directions.",
            low=0.05,
        ),
    ),
)
def jacobians(
    model: AdversarialModel,
    data: Any,
    samples: int = 16,
    k: int = 10,
    seed: int = 0,
) -> dict[str, Any]:
    """Measures how outputs follow the inputs, and how many directions the features use.

    It uses the singular values of the Jacobians of the logits and of the features with respect to
    one input, averaged over examples, and the covariance of the features of the whole batch.
    `docs/diagnostics.md` lists the measurements with their formulas and healthy values.

    Layers work as in inference, because batch statistics would couple the examples. Through binary
    layers the derivative is that of their estimator. The whole Jacobian is computed if it has at
    most 128 rows or columns and fits into 256 MiB; else its `k` largest singular values by
    Golub-Kahan-Lanczos and its norm by random projections.

    Args:
        samples: Number of examples of each domain whose Jacobians are computed. Defaults to `16`.
        k: Number of singular values, if not all are computed. Defaults to `10`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import jacobians
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> found = jacobians(model, ({"source": x, "target": 2 * x}, np.arange(8) % 2))
    >>> found["jacobian/source/logits/top"] <= found["jacobian/source/logits/norm"]
    True

    Reference:
        - [Novak et al., 2018](https://arxiv.org/abs/1802.08760), section 3: the norm.
        - [Roy and Vetterli, 2007](https://ieeexplore.ieee.org/document/7098875): effective rank.
        - [Jing et al., 2022](https://arxiv.org/abs/2110.09348), section 3: collapse of dimensions.
        - [Chen et al., 2019](https://proceedings.mlr.press/v97/chen19i.html): few dominant
          directions of the features hurt the classes.
    """
    check_flat(model)
    networks = {
        "logits": (model.classifier, model.num_classes),
        "features": (model.backbone, model.feature_shape[-1]),
    }
    found = {}
    for domain in DOMAINS:
        inputs = as_floats(data[0][domain])
        for name, (network, num_outputs) in networks.items():
            values = _of_one(network, num_outputs, inputs[:samples], k, seed)
            found.update({f"jacobian/{domain}/{name}/{key}": v for key, v in values.items()})
        features = to_numpy(model.backbone(inputs, training=False))
        ranks = rank_of_features(features.reshape(len(features), -1))
        found.update({f"rank/{domain}/{key}": value for key, value in ranks.items()})
    source, target = (found[f"jacobian/{domain}/logits/norm"] for domain in DOMAINS)
    found["jacobian/target_to_source"] = target / source if source else float("inf")
    return found


def as_floats(inputs: Any) -> np.ndarray:
    """Returns inputs, such as images in bytes, as floats, for which one can differentiate.

    Raises:
        ValueError: If there are several, because a Jacobian is that of one input.
    """
    if isinstance(inputs, dict | list | tuple):
        raise ValueError(
            "This diagnostic differentiates by the one input of a network. Received: "
            f"{len(inputs)} inputs in a {type(inputs).__name__}"
        )
    return np.asarray(ops.convert_to_numpy(inputs), "float32")


def is_whole(num_outputs: int, num_inputs: int, samples: int) -> bool:
    """Whether to compute a Jacobian of this size as a whole, with all its singular values."""
    fits = 4 * samples * num_outputs * num_inputs <= _BUDGET
    return fits and min(num_outputs, num_inputs) <= _WHOLE


def all_singular_values(network: keras.Model, inputs: np.ndarray) -> np.ndarray:
    """Returns all singular values of each example's Jacobian, `(batch, rank)`, descending."""
    jacobian = batch_jacobian(network, inputs)
    num_inputs = int(np.prod(inputs.shape[1:]))
    matrices = to_numpy(jacobian).reshape(len(inputs), -1, num_inputs)
    return np.linalg.svd(matrices, compute_uv=False)


def _of_one(network, num_outputs, inputs, k, seed):
    num_inputs = int(np.prod(inputs.shape[1:]))
    if is_whole(num_outputs, num_inputs, len(inputs)):
        values = all_singular_values(network, inputs)
        return {
            "norm": float(np.sqrt((values**2).sum(axis=1)).mean()),
            "top": float(values[:, 0].mean()),
            "condition": float(condition(values).mean()),
            "effective_rank": float(effective_rank(values).mean()),
            "singular_values": values.mean(axis=0),
        }
    k = min(k, num_inputs, num_outputs)
    values = to_numpy(singular_values(network, inputs, k, seed=seed))
    norms, errors = (to_numpy(value) for value in frobenius_norm(network, inputs, seed=seed))
    return {
        "norm": float(norms.mean()),
        "norm_error": float(np.sqrt((errors**2).sum()) / len(inputs)),
        "top": float(values[:, 0].mean()),
        "singular_values": values.mean(axis=0),
    }


def effective_rank(singular_values: np.ndarray) -> np.ndarray:
    """Returns how many directions a matrix uses: a real number from 1 to their number.

    - `exp(H(p))` with `p = s / sum s` and the entropy `H`

    The singular values lie along the last axis. A matrix of zeros has 0.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics.jacobians import effective_rank
    >>> float(effective_rank(np.array([2.0, 2.0, 0.0]))).__round__(6)
    2.0

    Reference:
        - [Roy and Vetterli, 2007](https://ieeexplore.ieee.org/document/7098875), section 2.
    """
    values = np.asarray(singular_values, "float64")
    total = values.sum(axis=-1, keepdims=True)
    shares = values / np.where(total > 0, total, 1.0)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=-1)
    return np.where(total[..., 0] > 0, np.exp(entropy), 0.0)


def condition(singular_values: np.ndarray) -> np.ndarray:
    """Returns the ratio of the largest singular value to the smallest that is not 0.

    They lie along the last axis. Those below a millionth of the largest count as 0. A matrix of
    zeros has 1.
    """
    values = np.asarray(singular_values, "float64")
    largest = values.max(axis=-1)
    kept = np.where(values > _ZERO * largest[..., None], values, np.inf)
    smallest = kept.min(axis=-1)
    return np.where(largest > 0, largest / np.where(np.isfinite(smallest), smallest, 1.0), 1.0)


def rank_of_features(features: np.ndarray) -> dict[str, float]:
    """Returns how many directions features use; a `ValueError` if there are fewer than 2 examples.

    With the singular values of the centred features `(batch, num_features)`

    - `effective_rank`: see `effective_rank`.
    - `rank_share`: the same divided by the greatest possible, `min(batch - 1, num_features)`.
    - `top_share`: share of the variance along the first direction.
    - `still`: share of features that are the same for every example.
    """
    if len(features) < 2:
        raise ValueError(
            "The rank of features needs at least 2 examples of each domain. "
            f"Received: {len(features)}"
        )
    centred = np.asarray(features, "float64") - features.mean(axis=0, dtype="float64")
    values = np.linalg.svd(centred, compute_uv=False)
    rank = float(effective_rank(values))
    energy = float((values**2).sum())
    return {
        "effective_rank": rank,
        "rank_share": rank / min(len(features) - 1, features.shape[1]),
        "top_share": float(values[0] ** 2 / energy) if energy else 1.0,
        "still": float(np.mean(np.ptp(features, axis=0) == 0)),
    }
