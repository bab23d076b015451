import keras
from keras import ops


@keras.saving.register_keras_serializable("dann")
class WeightClip(keras.constraints.Constraint):
    """Keeps latent weights in [-1, 1], where the straight-through gradient can still move them.

    `w = min(max(w, -limit), limit)` after each step of the optimizer.

    Args:
        limit: Greatest magnitude, above 0. Defaults to `1.0`.

    Raises:
        TypeError: If `limit` is no number.
        ValueError: If `limit` is not above 0.

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 1.4 and algorithm 1.
    """

    def __init__(self, limit: float = 1.0):
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise TypeError(f"Argument `limit` must be a number. Received: limit={limit!r}")
        if not limit > 0:
            raise ValueError(f"Argument `limit` must be above 0. Received: limit={limit}")
        self.limit = limit

    def __call__(self, w):
        return ops.clip(w, -self.limit, self.limit)

    def get_config(self):
        return {"limit": self.limit}
