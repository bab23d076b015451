"""The base of the estimators, and their registry."""

import abc
import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.checks import check_choice
from dann.configured import Configured
from dann.gradients.override import floating_tensor, override_gradient
from dann.gradients.stop_gradient import surrogate_gradient
from dann.registry import Registry


class Estimator(Configured, abc.ABC):
    """A quantizer with its own backward pass.

    - forward: `y = scale(x) * codes(x)`, by default the sign with `sign(0) = +1`; NaN stays NaN
    - backward: `dL/dx = slope(x) * dL/dy` where `inside(x)`, else `0`

    `implementation="override"` uses `slope`; `implementation="stop_gradient"` differentiates
    `curve`, the function with that slope. Subclasses keep their constructor's `arguments` in attributes of these names.

    Attributes:
        arguments: Names of the constructor's arguments.
        bits: Bits that a code takes.
        signed: Whether codes may be negative.
        pooled: Whether a value depends on the others in its tensor, and so on the batch.
        implementations: Names of the implementations.
    """

    bits = 1
    signed = True
    pooled = False
    implementations: tuple[str, ...] = ("override", "stop_gradient")

    @abc.abstractmethod
    def slope(self, inputs: Any, *extras: Any) -> Any:
        """The multiplier of the incoming gradient, at inputs that are inside."""

    @abc.abstractmethod
    def curve(self, inputs: Any, *extras: Any) -> Any:
        """A function whose derivative is `slope`, at inputs that are inside."""

    def inside(self, inputs: Any) -> Any:
        """Where a gradient flows: by default `|x| <= 1`, both ends included, and not at NaN."""
        return ops.abs(inputs) <= 1

    def codes(self, inputs: Any) -> Any:
        """The values to store, without scale and randomness.

        By default +1 where `x >= 0`, also at -0.0, else -1; NaN stays NaN.
        """
        signs = ops.where(inputs >= 0, ops.ones_like(inputs), -ops.ones_like(inputs))
        return ops.where(ops.isnan(inputs), inputs, signs)

    def scale(self, inputs: Any) -> Any:
        """The factor of the codes: `None`, or a tensor that broadcasts to `inputs`."""
        return None

    @property
    def of_codes(self) -> "Estimator":
        """The estimator of the codes without scale.

        Times `scale` it has the values of this estimator; times the detached scale, its gradient.
        """
        return self

    def forward(self, inputs: Any, *extras: Any) -> Any:
        """The value of the quantizer."""
        scale = self.scale(inputs)
        return self.codes(inputs) if scale is None else scale * self.codes(inputs)

    def backward(self, upstream: Any, inputs: Any, *extras: Any) -> Any:
        """The gradient of `inputs`, in at least float32 until the last rounding."""
        inside, wide = self._widened(inputs)
        gradient = ops.cast(upstream, wide.dtype) * self.slope(wide, *extras)
        return ops.where(inside, ops.cast(gradient, inputs.dtype), ops.zeros_like(inputs))

    def surrogate(self, inputs: Any, *extras: Any) -> Any:
        """A function with the derivative of the backward pass; only its derivative counts."""
        _, wide = self._widened(inputs)
        return ops.cast(self.curve(wide, *extras), inputs.dtype)

    def extras(self, inputs: Any, sharpness: Any, seed: Any) -> tuple:
        """The inputs that change from call to call, as tensors."""
        for name, value in (("sharpness", sharpness), ("seed", seed)):
            if value is not None:
                raise ValueError(f"{self!r} takes no `{name}`. Received: {name}={value!r}")
        return ()

    def __call__(
        self, inputs: Any, implementation: str = "override", sharpness: Any = None, seed: Any = None
    ) -> Any:
        """Quantizes a floating-point tensor; see `dann.gradients.binary_sign`."""
        inputs = floating_tensor(inputs)
        extras = [ops.stop_gradient(value) for value in self.extras(inputs, sharpness, seed)]
        return getattr(self, f"_by_{self.check_implementation(implementation)}")(inputs, *extras)

    def check_implementation(self, implementation: str) -> str:
        """Returns `implementation` if the estimator has it.

        Raises:
            ValueError: If it does not have it.
        """
        return check_choice("implementation", implementation, self.implementations)

    @functools.cached_property
    def _by_override(self):
        def backward(upstream, inputs, *extras):
            zeros = [ops.zeros_like(extra) for extra in extras]
            return self.backward(upstream, inputs, *extras), *zeros

        return override_gradient(self.forward, backward)

    @functools.cached_property
    def _by_stop_gradient(self):
        return surrogate_gradient(self.forward, self.surrogate)

    def _widened(self, inputs):
        """Where a gradient flows, and the inputs in float32 or wider, 0 elsewhere."""
        inside = self.inside(inputs)
        held = ops.where(inside, inputs, ops.zeros_like(inputs))
        return inside, ops.cast(held, keras.backend.result_type(inputs.dtype, "float32"))

    def __reduce__(self):
        # The attributes may hold a traced function, which can be neither copied nor pickled.
        return type(self).from_config, (self.get_config(),)


# One object for each name, because then all calls by that name share one traced function.
ESTIMATORS: Registry[Estimator] = Registry()


def register_estimator(name: str) -> Callable:
    """Returns a decorator that registers a class, with Keras and by an object with its defaults.

    Args:
        name: Name of the estimator.
    """

    def add(cls):
        ESTIMATORS[name] = cls()
        return keras.saving.register_keras_serializable("dann")(cls)

    return add
