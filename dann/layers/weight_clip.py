import keras
from keras import ops

from dann.checks import check_number


@keras.saving.register_keras_serializable("dann")
class WeightClip(keras.constraints.Constraint):
    """Clips latent weights to [-1, 1], where the straight-through gradient is not 0.

    - `w = min(max(w, -limit), limit)` after each step of the optimizer

    Args:
        limit: Maximum magnitude, above 0. Defaults to `1.0`.

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 1.4 and algorithm 1.
    """

    def __init__(self, limit: float = 1.0):
        self.limit = check_number("limit", limit, low=0, exclude_low=True)

    def __call__(self, w):
        return ops.clip(w, -self.limit, self.limit)

    def get_config(self):
        return {"limit": self.limit}
