from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.checks import check_choice
from dann.gradients import reverse_gradient
from dann.gradients.reversal import IMPLEMENTATIONS, check_strength, reject_synonyms
from dann.layers.state import add_state
from dann.schedules import StrengthSchedule
from dann.schedules.strengths import as_schedule


@keras.saving.register_keras_serializable("dann")
class GradientReversal(keras.layers.Layer):
    """Returns its inputs unchanged and reverses the gradient that flows back.

    - forward: `y = x`
    - backward: `dL/dx = -strength * dL/dy`

    Between a feature extractor and a discriminator, the layer makes both train against each other
    with one loss: the discriminator descends the loss, and the extractor ascends it.

    The layer counts its calls with `training=True` in the non-trainable weight `step` and stores
    the strength of the latest call in the non-trainable weight `strength`. A schedule therefore
    needs no callback, advances under `steps_per_execution` and XLA without retracing, is saved with
    the model and resumes where it stopped. Call the layer once per training step, with several
    tensors as one list: a second call counts as another step. A custom training loop must pass
    `training=True`, or the schedule stays at its first step. Without a schedule, the strength can
    be set at any time: `layer.strength = value`.

    Args:
        strength: A number of at least 0, a schedule of `dann.schedules` or
            `keras.optimizers.schedules`, or a function from the step (a float) to the strength. The
            function must use operations of Keras and be registered with
            `@keras.saving.register_keras_serializable()`. Defaults to `1.0`; 0.1 is often safer,
            see the FAQ.
        implementation: Implementation of the gradient: `"override"` (default), `"stop_gradient"`
            or, on TensorFlow, `"op_override"`; see `dann.gradients.reverse_gradient`.

    Call arguments:
        inputs: Floating-point tensor, or a dict, list or tuple of such tensors.
        training: Whether the call counts as a training step. Defaults to `False`; `fit` sets it.

    Input shape:
        Any.

    Output shape:
        The same as the input.

    Raises:
        TypeError: If `strength` is neither a number nor a schedule.
        ValueError: If `strength` is negative or not finite, is a function that is not registered,
            or is set while the layer has a schedule; if `implementation` is unknown.

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
        implementation: str = "override",
        **kwargs,
    ):
        reject_synonyms(kwargs)
        super().__init__(**kwargs)
        self.schedule = as_schedule(strength)
        start: Any = float(self.schedule(0)) if self.schedule else strength
        self.initial_strength = check_strength(start)
        self.implementation = check_choice("implementation", implementation, IMPLEMENTATIONS)
        self.supports_masking = True
        # Not in `build`, because callbacks may set the strength before the first batch.
        self.step = add_state(self, "step", "int", 0)
        self._strength = add_state(self, "strength", "float32", self.initial_strength)
        self.built = True

    @property
    def strength(self) -> keras.Variable:
        """Strength of the latest call, which can be set if the layer has no schedule."""
        return self._strength

    @strength.setter
    def strength(self, value: float):
        if self.schedule:
            raise ValueError(
                "Expected a layer without a schedule to set its strength. "
                f"Received: strength={value}, schedule={self.schedule}. Construct the layer with a "
                "number as `strength`"
            )
        # A compiled step reads the variable, not the attribute.
        self._strength.assign(check_strength(value))

    def call(self, inputs, training=False):
        if training:
            if self.schedule:
                # In float32, because operations of Keras do not combine int64 and floats.
                step = ops.cast(self.step.value, "float32")
                self._strength.assign(ops.cast(self.schedule(step), "float32"))
            self.step.assign_add(1)
        # A copy, because PyTorch changes the variable in place at the next call in the same step.
        strength = ops.copy(self._strength)
        return keras.tree.map_structure(
            lambda tensor: reverse_gradient(tensor, strength, implementation=self.implementation),
            inputs,
        )

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        strength = keras.saving.serialize_keras_object(self.schedule or self.initial_strength)
        return {**super().get_config(), "strength": strength, "implementation": self.implementation}
