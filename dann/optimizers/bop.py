from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Schedule = keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable("dann")
class Bop(keras.optimizers.Optimizer):
    """Flips binary weights whose gradient asks for it for long enough.

    It keeps no latent weights: of the variable it takes the sign and gives it -1 or +1. With the
    gradient `g` and weights `w` of -1 and +1,

    - `m = (1 - learning_rate) * m + learning_rate * g`, from 0 on
    - `w = -w` where `|m| > threshold` and `m` has the sign of `w`, so that the flip lowers the loss

    For kernels of binary layers alone, whose estimator passes a gradient at -1 and +1, as `"htanh"`
    does and `"approx_sign"` does not; `dann.optimizers.PerVariable` gives all other variables to
    another optimizer.

    Args:
        learning_rate: The paper's adaptivity rate gamma, in (0, 1], or a schedule of it: the share
            of the newest gradient in `m`. Defaults to `1e-4`.
        threshold: The paper's tau, at least 0, or a schedule of it: what `m` must exceed. Higher
            ones flip less. Defaults to `1e-8`.
        name: Name of the optimizer.
        **kwargs: Further arguments of Keras' optimizers, but `weight_decay`.

    Raises:
        TypeError: If `threshold` is neither a number nor a schedule, or `learning_rate` is a bool.
        ValueError: If `learning_rate` or `threshold` is out of range, there is a weight decay, or
            a variable is in half precision, which rounds `1 - learning_rate` to 1.

    Example:

    >>> import keras
    >>> from dann.optimizers import Bop
    >>> weights = keras.Variable([1.0, 1.0, -1.0])
    >>> bop = Bop(learning_rate=0.5, threshold=0.1)
    >>> bop.apply([keras.ops.array([0.4, -0.4, -0.1])], [weights])
    >>> [float(value) for value in keras.ops.convert_to_numpy(weights)]
    [-1.0, 1.0, -1.0]

    Reference:
        - [Helwegen et al., 2019](https://arxiv.org/abs/1906.02107), algorithm 1.
    """

    def __init__(
        self,
        learning_rate: float | Schedule | Callable[[], Any] = 1e-4,
        threshold: float | Schedule = 1e-8,
        name: str = "bop",
        **kwargs,
    ):
        if kwargs.get("weight_decay") is not None:
            raise ValueError(
                "Weights of -1 and +1 have no size to decay; leave `weight_decay` out. "
                f"Received: weight_decay={kwargs['weight_decay']}"
            )
        if isinstance(learning_rate, bool):
            raise TypeError(
                "Argument `learning_rate` must be a number, a schedule of Keras or a callable. "
                f"Received: learning_rate={learning_rate}"
            )
        if isinstance(learning_rate, int | float) and not 0 < learning_rate <= 1:
            raise ValueError(
                "Argument `learning_rate`, the share of the newest gradient, must be above 0 and "
                f"at most 1. Received: learning_rate={learning_rate}"
            )
        if isinstance(learning_rate, int):
            learning_rate = float(learning_rate)
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.threshold = _checked(threshold)
        self._averages = []

    def build(self, variables):
        if self.built:
            return
        for variable in variables:
            if keras.backend.standardize_dtype(variable.dtype) in ("float16", "bfloat16"):
                raise ValueError(
                    "`Bop` needs variables in single precision; the policies 'mixed_float16' and "
                    f"'mixed_bfloat16' have them. Received: {variable.path} of {variable.dtype}"
                )
        super().build(variables)
        self._averages = self.add_optimizer_variables(variables, "average_gradient")

    def update_step(self, gradient, variable, learning_rate):
        average = self._averages[self._get_variable_index(variable)]
        rate = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        new = (1 - rate) * ops.convert_to_tensor(average) + rate * gradient
        self.assign(average, new)
        threshold = self.threshold
        if isinstance(threshold, Schedule):
            threshold = threshold(self._iterations)
        weights = ops.convert_to_tensor(variable)
        signs = ops.where(weights >= 0, ops.ones_like(weights), -ops.ones_like(weights))
        flips = signs * new > ops.cast(threshold, variable.dtype)
        self.assign(variable, ops.where(flips, -signs, signs))

    def get_config(self):
        threshold = self.threshold
        if isinstance(threshold, Schedule):
            threshold = keras.saving.serialize_keras_object(threshold)
        return {**super().get_config(), "threshold": threshold}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        if isinstance(config["threshold"], dict):
            threshold = keras.saving.deserialize_keras_object(
                config["threshold"], custom_objects=custom_objects
            )
            config = {**config, "threshold": threshold}
        return super().from_config(config, custom_objects=custom_objects)


def _checked(threshold):
    if isinstance(threshold, Schedule):
        return threshold
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise TypeError(
            f"Argument `threshold` must be a number or a schedule of Keras. Received: {threshold!r}"
        )
    if not 0 <= threshold < float("inf"):
        raise ValueError(
            f"Argument `threshold` must be finite and at least 0. Received: threshold={threshold}"
        )
    return threshold
