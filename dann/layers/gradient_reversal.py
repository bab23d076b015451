import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import keras
from keras import ops
from keras.optimizers import schedules

from dann.checks import check_choice
from dann.gradients import override_gradient, reverse_gradient
from dann.gradients.reversal import WAYS, check_strength
from dann.layers.state import add_state
from dann.schedules import StrengthSchedule, as_schedule


@keras.saving.register_keras_serializable("dann")
class GradientReversal(keras.layers.Layer):
    """Passes its input on unchanged and reverses the gradient that flows back.

    - forward: `y = x`
    - backward: `dL/dx = -strength * dL/dy`

    Between a feature extractor and a discriminator it lets one loss train both against each other:
    the discriminator descends the loss, the extractor climbs it.

    The layer counts training steps (calls with `training=True`) in the non-trainable weight `step`
    and holds the strength of the latest call in the non-trainable weight `strength`. A schedule
    therefore needs no callback, advances under `steps_per_execution` and XLA without retracing, is
    saved with the model and resumes where it stopped. Your own training loop must pass
    `training=True`, or a schedule stays at its first step; a gradient through it then warns, unless
    the way is `"stop_gradient"`. Without a schedule, set the strength at
    any time: `layer.strength = value`.

    Args:
        strength: A number of at least 0, a schedule of `dann.schedules` or
            `keras.optimizers.schedules`, or a function from the step to the strength, registered
            with `@keras.saving.register_keras_serializable()`. Defaults to `1.0`.
        way: How the gradient is built: `"override"` (default), `"stop_gradient"` or, on
            TensorFlow, `"op_override"`; see `dann.gradients.reverse_gradient`.

    Call arguments:
        inputs: Floating-point tensor, or several in a dict, list or tuple, each of which is
            reversed.
        training: Whether the call is a training step. Defaults to `False`; `fit` sets it.

    Input shape:
        Any.

    Output shape:
        The same as the input.

    Raises:
        TypeError: If `strength` is neither a number nor a schedule.
        ValueError: If `strength` is negative or not finite, is a function that is not registered,
            or is set although there is a schedule; if `way` is unknown.

    Example:

    >>> import keras
    >>> from dann.layers import GradientReversal
    >>> from dann.schedules import GaninSchedule
    >>> reversal = GradientReversal(GaninSchedule(total_steps=1000))
    >>> for _ in range(101):
    ...     features = reversal(keras.ops.ones((2, 3)), training=True)
    >>> int(reversal.step), round(float(reversal.strength), 3)
    (101, 0.462)

    Reference:
        - [Ganin and Lempitsky, 2015](https://arxiv.org/abs/1409.7495), section 3.2.
    """

    def __init__(
        self,
        strength: float | StrengthSchedule | Callable[[Any], Any] = 1.0,
        way: str = "override",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.schedule = as_schedule(strength)
        start: Any = float(self.schedule(0)) if self.schedule else 0.0
        self.initial_strength = check_strength(start if self.schedule else strength)
        self.way = check_choice("way", way, WAYS)
        self.supports_masking = True
        # Not in `build`, because callbacks may set the strength before the first batch.
        # The stop-gradient way has a forward mode on JAX, which an overridden gradient has not.
        self._begun = self.schedule is None or way == "stop_gradient"
        self._watched = override_gradient(lambda inputs: inputs, self._told_if_not_begun)
        self.step = add_state(self, "step", "int", 0)
        self.strength = add_state(self, "strength", "float32", self.initial_strength)
        self._build_at_init()

    def __setattr__(self, name, value):
        if name != "strength" or isinstance(value, keras.Variable):
            super().__setattr__(name, value)
        elif self.schedule is None:
            # A compiled step reads the variable and would not notice a number.
            self.strength.assign(check_strength(value))
        else:
            raise ValueError(
                "The strength follows the schedule; a layer whose strength is set begins with a "
                f"number. Received: strength={value}, schedule={self.schedule}"
            )

    def call(self, inputs, training=False):
        if training:
            if self.schedule:
                self.strength.assign(ops.cast(self._scheduled(), "float32"))
            self.step.assign_add(1)
            self._begun = True
        if not self._begun:
            inputs = keras.tree.map_structure(self._watched, inputs)
        # A copy, because torch changes the variable in place at the next call of the same step.
        strength = ops.copy(self.strength)
        return keras.tree.map_structure(
            lambda tensor: reverse_gradient(tensor, strength, way=self.way), inputs
        )

    def _scheduled(self):
        """The strength of this step."""
        schedule: Any = self.schedule
        if isinstance(schedule, StrengthSchedule | schedules.LearningRateSchedule):
            return schedule(self.step.value)
        try:
            return schedule(ops.cast(self.step.value, "float32"))  # it may divide by floats
        except Exception as error:  # of each backend's own type
            raise TypeError(
                "A strength that is a function must compute with `keras.ops`, because training "
                "compiles it: `keras.ops.exp` for `math.exp`, `keras.ops.where` for `if`. "
                f"Received: {schedule!r}, which raises {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else 'nothing'}"
            ) from error

    def _told_if_not_begun(self, upstream, inputs):
        """Passes a gradient on, and warns if no call has been a training step so far."""
        if not (self._begun or self._steps_now()):
            warnings.warn(
                f"The schedule of layer {self.name!r} stays at its first step, with a strength of "
                f"{self.initial_strength:g}, because the layer is called without `training=True`: "
                "a training loop of your own calls `model(inputs, training=True)`.",
                stacklevel=2,
            )
        return upstream

    def _steps_now(self):
        """The number of steps, as it is while a function is traced; 0 if it cannot be known."""
        outside = contextlib.nullcontext()
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            outside = tf.init_scope()
        try:
            with outside:
                return ops.convert_to_numpy(self.step.value).item()  # type: ignore[union-attr]
        except Exception:  # a symbol, of which each backend has errors of its own
            return 0

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        strength = self.initial_strength
        if self.schedule:
            strength = keras.saving.serialize_keras_object(self.schedule)
        return {**super().get_config(), "strength": strength, "way": self.way}

    @classmethod
    def from_config(cls, config):
        if isinstance(config["strength"], dict):
            strength = keras.saving.deserialize_keras_object(config["strength"])
            config = {**config, "strength": strength}
        return cls(**config)
