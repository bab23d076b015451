"""The divergences of `FDAL` by name. To add one, add an entry to `DIVERGENCES`."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from keras import ops


@dataclasses.dataclass(frozen=True)
class Divergence:
    """The functions with which a critic with unbounded output estimates an f-divergence.

    For distributions `S` and `T` with densities `s`, `t` and a convex function `phi` with
    `phi(1) = 0`, whose conjugate is `phi*(v) = sup_u (u v - phi(u))`,

    - `D(S || T) = E_T[phi(s / t)] >= E_S[g(v(x))] - E_T[phi*(g(v(x)))]` for every critic `v`

    Args:
        activation: `g`, which maps the real numbers into the domain of the conjugate.
        conjugate: `v -> phi*(g(v))`, simplified to keep rounding errors small.

    Reference:
        - [Nowozin et al., 2016](https://arxiv.org/abs/1606.00709), table 2 and its continuation in
          the appendix.
    """

    activation: Callable[[Any], Any]
    conjugate: Callable[[Any], Any]


# `u` is the ratio of the densities. As in the paper's table, Pearson's `phi` is also defined for
# negative `u`.
DIVERGENCES = {
    # phi = u log u;  g = v;  phi*(t) = exp(t - 1)
    "kl": Divergence(lambda v: v, lambda v: ops.exp(v - 1)),
    # phi = -log u;  g = -exp(-v);  phi*(t) = -1 - log(-t)
    "reverse_kl": Divergence(lambda v: -ops.exp(-v), lambda v: v - 1),
    # phi = (u - 1)^2;  g = v;  phi*(t) = t^2 / 4 + t
    "pearson": Divergence(lambda v: v, lambda v: ops.square(v) / 4 + v),
    # phi = (1 - u)^2 / u;  g = 1 - exp(-v);  phi*(t) = 2 - 2 sqrt(1 - t)
    "neyman": Divergence(lambda v: 1 - ops.exp(-v), lambda v: 2 - 2 * ops.exp(-v / 2)),
    # phi = (sqrt(u) - 1)^2;  g = 1 - exp(-v);  phi*(t) = t / (1 - t)
    "squared_hellinger": Divergence(lambda v: 1 - ops.exp(-v), lambda v: ops.exp(v) - 1),
    # phi = u log u - (u + 1) log((u + 1) / 2);  g = log 2 - log(1 + exp(-v));
    # phi*(t) = -log(2 - exp(t))
    "jensen_shannon": Divergence(
        lambda v: math.log(2) - ops.softplus(-v), lambda v: ops.softplus(v) - math.log(2)
    ),
    # phi = |u - 1| / 2;  g = tanh(v) / 2;  phi*(t) = t for |t| <= 1 / 2
    "total_variation": Divergence(lambda v: ops.tanh(v) / 2, lambda v: ops.tanh(v) / 2),
}
