import keras
from keras import ops

from dann.gradients import binary_sign
from dann.gradients.estimators import Estimator, Stochastic
from dann.gradients.estimators.curves import ScheduledEstimator
from dann.gradients.estimators.identifiers import get_estimator, standardize_estimator
from dann.layers.state import add_state


@keras.saving.register_keras_serializable("dann")
class BinarySign(keras.layers.Layer):
    """Returns the sign of its inputs, +1 or -1, with a gradient that networks can train with.

    - forward: `y = +1` where `x >= 0`, else `-1`; NaN stays NaN, but is -1 in exported networks
    - backward: `dL/dx = slope(x) * dL/dy` with the slope of the estimator, by default the slope of
      Htanh, `1` where `|x| <= 1`, else `0`

    With an estimator that sharpens during training (`"ede"`, `"reste"`), the layer counts its calls
    with `training=True` in the non-trainable weight `step` and stores the latest sharpness in the
    non-trainable weight `sharpness`. It needs no callback, and a saved model resumes where it
    stopped. `"stochastic"` draws random numbers only in training, from a seed generator that is
    saved with the model.

    Args:
        implementation: Implementation of the gradient: `"override"` (default), `"stop_gradient"`
            or, on TensorFlow and for `"htanh"`, `"op_override"`. Values and gradients are the same;
            see `dann.gradients.binary_sign`.
        estimator: A name or an object of `dann.gradients.estimators`. Defaults to `"htanh"`.

    Call arguments:
        inputs: Floating-point tensor.
        training: Whether the call is a training step. Defaults to `False`; `fit` sets it.

    Input shape:
        Any.

    Output shape:
        The same as the input.

    Raises:
        ValueError: If `estimator` is unknown or does not support `implementation`.
        TypeError: If `estimator` is neither a name nor an estimator.

    Example:

    >>> import keras
    >>> from dann.layers import BinarySign
    >>> [float(value) for value in BinarySign()(keras.ops.array([-0.3, 0.0, 2.0]))]
    [-1.0, 1.0, 1.0]

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), equations 1 and 4.
    """

    def __init__(
        self, implementation: str = "override", estimator: str | Estimator = "htanh", **kwargs
    ):
        super().__init__(**kwargs)
        self.identifier = standardize_estimator(estimator)
        self.estimator = get_estimator(self.identifier)
        self.estimator.check_implementation(implementation)
        self.implementation = implementation
        self.supports_masking = True
        self.step = self.sharpness = self.seed_generator = None
        if isinstance(self.estimator, ScheduledEstimator):
            # Not in `build`, because callbacks may read them before the first batch.
            self.step = add_state(self, "step", "int", 0)
            self.sharpness = add_state(self, "sharpness", "float32", self.estimator.low)
        if isinstance(self.estimator, Stochastic):
            self.seed_generator = keras.random.SeedGenerator(self.estimator.seed)

    def call(self, inputs, training=False):
        sharpness = None
        if isinstance(self.estimator, ScheduledEstimator):
            if training:
                self.sharpness.assign(self.estimator.sharpness_at(self.step.value))
                self.step.assign_add(1)
            # A copy, because PyTorch changes the variable in place at the next call in the step.
            sharpness = ops.copy(self.sharpness)
        seed = self.seed_generator if training else None
        return binary_sign(inputs, self.implementation, self.estimator, sharpness, seed)

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if self.seed_generator is not None:  # Keras does not save seed generators
            store["seed"] = self.seed_generator.state

    def load_own_variables(self, store):
        variables = {name: store[name] for name in store.keys()}  # noqa: SIM118, not a dict
        if self.seed_generator is not None:
            self.seed_generator.state.assign(variables.pop("seed"))
        super().load_own_variables(variables)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        estimator = keras.saving.serialize_keras_object(self.identifier)
        return {
            **super().get_config(),
            "implementation": self.implementation,
            "estimator": estimator,
        }
