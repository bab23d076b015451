"""The base class of the estimators, and their registry."""

import abc
import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.checks import check_choice
from dann.config_mixin import ConfigMixin
from dann.gradients.override import floating_tensor, override_pure_gradient
from dann.gradients.stop_gradient import straight_through
from dann.registry import Registry


class Estimator(ConfigMixin, abc.ABC):
    """A quantizer with its own backward pass.

    - forward: `y = scale(x) * codes(x)`, by default the sign with `sign(0) = +1`; NaN stays NaN
    - backward: `dL/dx = slope(x) * dL/dy` where `gradient_mask(x)`, else `0`

    `implementation="override"` uses `slope`; `implementation="stop_gradient"` differentiates
    `surrogate_curve`, a function with this slope. Subclasses store the arguments of their
    constructor in attributes of the same names.

    Attributes:
        arguments: Names of the arguments of the constructor.
        bits: Number of bits of a code.
        signed: Whether codes may be negative.
        depends_on_batch: Whether a value depends on other values in its tensor.
        implementations: Names of the supported implementations.
    """

    bits = 1
    signed = True
    depends_on_batch = False
    implementations: tuple[str, ...] = ("override", "stop_gradient")

    @abc.abstractmethod
    def slope(self, inputs: Any, *runtime_inputs: Any) -> Any:
        """Returns the factor of the upstream gradient, used where `gradient_mask(inputs)`."""

    @abc.abstractmethod
    def surrogate_curve(self, inputs: Any, *runtime_inputs: Any) -> Any:
        """Returns a function whose derivative is `slope`, used where `gradient_mask(inputs)`."""

    def gradient_mask(self, inputs: Any) -> Any:
        """Returns a mask of the inputs that get a gradient.

        By default `|x| <= 1`, including both ends but not NaN.
        """
        return ops.abs(inputs) <= 1

    def codes(self, inputs: Any) -> Any:
        """Returns the values to store, without scale and randomness.

        By default +1 where `x >= 0`, also at -0.0, else -1; NaN stays NaN.
        """
        signs = ops.where(inputs >= 0, ops.ones_like(inputs), -ops.ones_like(inputs))
        return ops.where(ops.isnan(inputs), inputs, signs)

    def scale(self, inputs: Any) -> Any:
        """Returns the factor of the codes: `None`, or a tensor that broadcasts to `inputs`."""
        return None

    @property
    def code_estimator(self) -> "Estimator":
        """Estimator of the codes without scale.

        Its values times `scale` are the values of this estimator, and its gradient times the
        constant `scale` is the gradient of this estimator.
        """
        return self

    def forward(self, inputs: Any, *runtime_inputs: Any) -> Any:
        """Returns the quantized inputs."""
        scale = self.scale(inputs)
        return self.codes(inputs) if scale is None else scale * self.codes(inputs)

    def backward(self, upstream: Any, inputs: Any, *runtime_inputs: Any) -> Any:
        """Returns the gradient of the inputs, computed in at least float32."""
        mask, wide = self._widen(inputs)
        # A slope in float16 could overflow or lose its small values.
        gradient = ops.cast(upstream, wide.dtype) * self.slope(wide, *runtime_inputs)
        return ops.where(mask, ops.cast(gradient, inputs.dtype), ops.zeros_like(inputs))

    def surrogate(self, inputs: Any, *runtime_inputs: Any) -> Any:
        """Returns a function with the derivative of the backward pass."""
        _, wide = self._widen(inputs)
        return ops.cast(self.surrogate_curve(wide, *runtime_inputs), inputs.dtype)

    def runtime_inputs(self, inputs: Any, sharpness: Any, seed: Any) -> tuple:
        """Returns the inputs that change between calls, as tensors."""
        for name, value in (("sharpness", sharpness), ("seed", seed)):
            if value is not None:
                raise ValueError(f"{self!r} takes no `{name}`. Received: {name}={value!r}")
        return ()

    def __call__(
        self, inputs: Any, implementation: str = "override", sharpness: Any = None, seed: Any = None
    ) -> Any:
        """Quantizes a floating-point tensor; see `dann.gradients.binary_sign`."""
        inputs = floating_tensor(inputs)
        runtime_inputs = [
            ops.stop_gradient(value) for value in self.runtime_inputs(inputs, sharpness, seed)
        ]
        return self.functions[self.check_implementation(implementation)](inputs, *runtime_inputs)

    def check_implementation(self, implementation: str) -> str:
        """Returns `implementation` if the estimator supports it.

        Raises:
            ValueError: If the estimator does not support it.
        """
        return check_choice("implementation", implementation, self.implementations)

    # Built once, so that all calls share their traces.
    @functools.cached_property
    def functions(self) -> dict[str, Callable]:
        """Functions of the inputs and runtime inputs, by implementation."""

        def backward(upstream, inputs, *runtime_inputs):
            zeros = [ops.zeros_like(tensor) for tensor in runtime_inputs]
            return self.backward(upstream, inputs, *runtime_inputs), *zeros

        def apply_surrogate(*inputs):
            return straight_through(self.forward(*inputs), self.surrogate(*inputs))

        return {
            "override": override_pure_gradient(self.forward, backward),
            "stop_gradient": apply_surrogate,
        }

    def _widen(self, inputs):
        """Returns the gradient mask, and the inputs in at least float32, with 0 elsewhere."""
        mask = self.gradient_mask(inputs)
        masked = ops.where(mask, inputs, ops.zeros_like(inputs))
        return mask, ops.cast(masked, keras.backend.result_type(inputs.dtype, "float32"))

    def __reduce__(self):
        # An attribute may be a traced function, which can neither be copied nor pickled.
        return type(self).from_config, (self.get_config(),)


# One object per name, so that all calls by that name share one traced function.
ESTIMATORS: Registry[Estimator] = Registry()


def register_estimator(name: str) -> Callable:
    """Returns a decorator that registers an estimator class with Keras and as an object by name.

    Args:
        name: Name of the estimator.
    """

    def register(cls):
        ESTIMATORS[name] = cls()
        return keras.saving.register_keras_serializable("dann")(cls)

    return register
