from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.checks import check_number
from dann.optimizers.per_variable import is_binary

Schedule = keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable("dann")
class Bop(keras.optimizers.Optimizer):
    """Flips a binary weight once its averaged gradient is strong enough against it.

    It keeps no latent weights: it takes the sign of the variable and assigns -1 or +1. With the
    gradient `g` and weights `w` of -1 and +1,

    - `m = (1 - learning_rate) * m + learning_rate * g`, from 0 on
    - `w = -w` where `|m| > threshold` and `m` has the sign of `w`: the flip lowers the loss

    It is only for kernels of binary layers, which mark them by `variable.binary = True`. Their
    estimator must pass a gradient at -1 and +1, as `"htanh"` does and `"approx_sign"` does not.
    `dann.optimizers.PerVariable` gives all other variables to another optimizer.

    Args:
        learning_rate: The paper's adaptivity rate gamma, in (0, 1], or a schedule of it: the share
            of the newest gradient in `m`. Defaults to `1e-4`.
        threshold: The paper's tau, at least 0, or a schedule of it: `|m|` must exceed it. Higher
            thresholds flip less. Defaults to `1e-8`.
        name: Name of the optimizer.
        **kwargs: Further arguments of Keras's optimizers, except `weight_decay`.

    Raises:
        TypeError: If `threshold` or `learning_rate` is neither a number nor a schedule.
        ValueError: If `learning_rate` or `threshold` is out of range, there is a weight decay, or
            a variable is no kernel of a binary layer or in half precision, which rounds
            `1 - learning_rate` to 1.

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
                "Weights of -1 and +1 have no size to decay; leave `weight_decay` out. "
                f"Received: weight_decay={kwargs['weight_decay']}"
            )
        if not (isinstance(learning_rate, Schedule) or callable(learning_rate)):
            why = "a schedule of Keras or a callable: it is the share of the newest gradient"
            learning_rate = check_number("learning_rate", learning_rate, 0, 1, above=True, why=why)
        if not isinstance(threshold, Schedule):
            threshold = check_number("threshold", threshold, 0, why="or a schedule of Keras")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.threshold = threshold
        self._averages = []

    def build(self, variables):
        if self.built:
            return
        for variable in variables:
            if not is_binary(variable):
                raise ValueError(
                    "`Bop` makes each weight -1 or +1: `PerVariable({'binary': Bop()}, rest=...)` "
                    "gives it the kernels of binary layers alone. Received: "
                    f"{variable.path}, which no layer marks as binary"
                )
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
        threshold = keras.saving.serialize_keras_object(self.threshold)
        return {**super().get_config(), "threshold": threshold}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        restored = keras.saving.deserialize_keras_object
        threshold = restored(config["threshold"], custom_objects=custom_objects)
        return super().from_config({**config, "threshold": threshold}, custom_objects)
