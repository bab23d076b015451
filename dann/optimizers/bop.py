from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.checks import check_number
from dann.optimizers.per_variable import is_binary

Schedule = keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable("dann")
class Bop(keras.optimizers.Optimizer):
    """Flips a binary weight when its averaged gradient exceeds a threshold.

    Bop has no latent weights: it reads the sign of a variable and assigns -1 or +1. With the
    gradient `g`, its moving average `m`, and weights `w` of -1 and +1, a step computes

    - `m = (1 - learning_rate) * m + learning_rate * g`, starting from `m = 0`
    - `w = -w` where `|m| > threshold` and `m` has the sign of `w`, so that the flip lowers the loss

    Bop trains only the kernels of binary layers, which are marked by `variable.binary = True`.
    Their estimator must have a gradient at -1 and +1: `"htanh"` has one, `"approx_sign"` does not.
    Use `dann.optimizers.PerVariable` to train all other variables with another optimizer.

    Args:
        learning_rate: The paper's adaptivity rate gamma, the weight of the newest gradient in `m`:
            a number in (0, 1], or a schedule. Defaults to `1e-4`.
        threshold: The paper's tau, which `|m|` must exceed for a flip: a number of at least 0, or a
            schedule. Higher thresholds cause fewer flips. Defaults to `1e-8`.
        name: Name of the optimizer.
        **kwargs: Further arguments of Keras's optimizers, except `weight_decay`.

    Raises:
        TypeError: If `threshold` or `learning_rate` is neither a number nor a schedule.
        ValueError: If `learning_rate` or `threshold` is out of range, if there is a weight decay,
            or, in `build`, if a variable is not the kernel of a binary layer or is in half
            precision, which would round `1 - learning_rate` to 1; or if `threshold` is set after
            training has begun.

    Example:

    >>> import keras
    >>> from dann.optimizers import Bop
    >>> weights = keras.Variable([1.0, 1.0, -1.0])
    >>> weights.binary = True
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
                "Expected no `weight_decay`, because weights of -1 and +1 cannot decay. "
                f"Received: weight_decay={kwargs['weight_decay']}"
            )
        if not callable(learning_rate):  # schedules are callable
            learning_rate = check_number("learning_rate", learning_rate, 0, 1, exclude_low=True)
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.threshold = threshold
        self._averages = []

    @property
    def threshold(self):
        return self._threshold

    @threshold.setter
    def threshold(self, threshold):
        if self.built:  # a compiled training step would ignore the change
            raise ValueError(
                "Expected `threshold` to be set before training. Received: a new threshold of a "
                "built `Bop`. Pass a schedule, or compile the model with a new `Bop`"
            )
        if not isinstance(threshold, Schedule):
            threshold = check_number("threshold", threshold, 0, hint="or a Keras schedule")
        self._threshold = threshold

    def build(self, variables):
        if self.built:
            return
        for variable in variables:
            if not is_binary(variable):
                raise ValueError(
                    "Expected only kernels of binary layers, because `Bop` sets every weight to "
                    f"-1 or +1. Received: {variable.path}, which no layer marks as binary. Use "
                    "`PerVariable({'binary': Bop()}, default_optimizer=...)`"
                )
            if keras.backend.standardize_dtype(variable.dtype) in ("float16", "bfloat16"):
                raise ValueError(
                    "Expected variables in single precision, as the policies 'mixed_float16' and "
                    f"'mixed_bfloat16' have. Received: {variable.path} of {variable.dtype}"
                )
        super().build(variables)
        self._averages = self.add_optimizer_variables(variables, "average_gradient")

    def update_step(self, gradient, variable, learning_rate):
        average = self._averages[self._get_variable_index(variable)]
        gamma = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        # Algorithm 1: the moving average m.
        new_average = (1 - gamma) * ops.convert_to_tensor(average) + gamma * gradient
        self.assign(average, new_average)
        threshold = self.threshold
        if isinstance(threshold, Schedule):
            threshold = threshold(self._iterations)
        weights = ops.convert_to_tensor(variable)
        signs = ops.where(weights >= 0, ops.ones_like(weights), -ops.ones_like(weights))
        # Algorithm 1: flip if |m| > tau and m has the sign of w.
        flips = signs * new_average > ops.cast(threshold, variable.dtype)
        self.assign(variable, ops.where(flips, -signs, signs))

    def get_config(self):
        threshold = keras.saving.serialize_keras_object(self.threshold)
        return {**super().get_config(), "threshold": threshold}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        threshold = keras.saving.deserialize_keras_object(config["threshold"], custom_objects)
        return super().from_config({**config, "threshold": threshold}, custom_objects)
