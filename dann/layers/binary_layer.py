"""Base class of layers with a binary kernel."""

from collections.abc import Callable
from typing import Any, TypedDict

import keras
from keras import ops

from dann.gradients.estimators import Estimator
from dann.gradients.estimators.identifiers import (
    get_estimator,
    get_kernel_estimator,
    standardize_estimator,
)
from dann.layers.binary_sign import BinarySign
from dann.layers.weight_clip import WeightClip


class BinaryOptions(TypedDict, total=False):
    """Options of every binary layer: of `BinaryLayer`, then of the Keras layer."""

    input_estimator: str | Estimator | Callable | None
    kernel_estimator: str | Estimator | Callable
    implementation: str
    clip: bool
    use_bias: bool
    bias_initializer: Any
    bias_regularizer: Any
    activity_regularizer: Any
    bias_constraint: Any
    name: str | None
    dtype: Any
    trainable: bool


class KernelOptions(BinaryOptions, total=False):
    """Options of a binary layer whose weights are named `kernel`."""

    kernel_initializer: Any
    kernel_regularizer: Any
    kernel_constraint: Any


class BinaryLayer(keras.layers.Layer):
    """Mixin that gives a Keras layer a binary kernel and binary inputs.

    A binary layer derives from this class and then from the Keras layer.

    - forward: `y = activation(f(q(x), q(W)) + b)`, where `f` is the linear part of the layer and
      `q` the quantizer of the estimator, by default the sign
    - backward: the gradients of the estimators, through `q` to `x` and to the latent kernel `W`

    Each call quantizes the kernel. `kernel` is the latent kernel, which trains; `binary_kernel()`
    returns the quantized kernel.

    A subclass computes `f` in `apply`. It sets `channel_axes`, the axes of the kernel's output
    channels, and `constraint`, the name of the attribute with the constraint of the kernel. The
    scale of the kernel multiplies the outputs, so the sums of products of signs are exact integers.

    Args:
        *args: Positional arguments of the Keras layer.
        input_estimator: Quantizer of the inputs: a name or an object of
            `dann.gradients.estimators`; a function registered with Keras or a layer without
            weights that quantizes, as in larq; or `None` for inputs that are not quantized, as in
            the first layer of a network. Defaults to `"htanh"`.
        kernel_estimator: Quantizer of the kernel: a name, an object, a function or a layer, but not
            `None`. Defaults to `"htanh"`.
        implementation: Implementation of the gradients: `"override"` (default), `"stop_gradient"`
            or `"op_override"`; see `dann.gradients.binary_sign`.
        clip: Whether `WeightClip` limits latent weights to [-1, 1]. A constraint of the caller
            replaces it. Defaults to `True`.
        **kwargs: Keyword arguments of the Keras layer with its defaults: `"glorot_uniform"` and a
            bias, which is redundant before batch normalization.

    Raises:
        TypeError: If an estimator is neither a name nor an object.
        ValueError: If an estimator or `implementation` is unknown; if the estimator of the inputs
            depends on the whole batch; if `dtype` or `lora_rank` would replace the binary kernel.

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), algorithm 1.
    """

    channel_axes: tuple[int, ...] = (-1,)
    constraint = "kernel_constraint"

    def __init__(
        self,
        *args,
        input_estimator: str | Estimator | Callable | None = "htanh",
        kernel_estimator: str | Estimator | Callable = "htanh",
        implementation: str = "override",
        clip: bool = True,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        if getattr(self, "lora_rank", None) or self.quantization_mode:
            self._reject_keras_quantization()
        self.input_estimator = standardize_estimator(input_estimator)
        self.kernel_estimator = standardize_estimator(kernel_estimator)
        self.implementation = implementation
        self.clip = clip
        self.input_sign = None
        if input_estimator is not None:
            estimator = get_estimator(self.input_estimator)
            if estimator.depends_on_batch:
                raise ValueError(
                    "Expected an `input_estimator` that treats each value separately, because "
                    "predictions must not depend on the rest of the batch. Received: "
                    f"input_estimator={estimator!r}. Use it as `kernel_estimator` only"
                )
            self.input_sign = self._sign(estimator, "input_sign")
        self.kernel_quantizer = get_kernel_estimator(self.kernel_estimator, self.channel_axes)
        self.kernel_quantizer.check_implementation(implementation)
        self.kernel_sign = self._sign(self.kernel_quantizer.code_estimator, "kernel_sign")
        # The gradient is 0 outside [-1, 1], so weights there could not return.
        if clip and getattr(self, self.constraint) is None:
            setattr(self, self.constraint, WeightClip())

    def _sign(self, estimator, name):
        sign = BinarySign(self.implementation, estimator, name=name, dtype=self.dtype_policy)
        sign.built = True  # `Model.quantize` would refuse it before the first call
        return sign

    def _reject_keras_quantization(self, *args, **kwargs):
        rank = getattr(self, "lora_rank", None)
        raise ValueError(
            f"Expected a floating `dtype` and no `lora_rank`, because {type(self).__name__} "
            "quantizes its kernel itself and the quantized types and low-rank updates of Keras "
            f"would replace it. Received: lora_rank={rank}, dtype={self.dtype_policy.name}"
        )

    # Keras calls `quantized_call` instead of `call` once the policy is a quantized one.
    quantize = enable_lora = quantized_call = _reject_keras_quantization

    def build(self, input_shape):
        super().build(input_shape)
        # `dann.optimizers` recognizes kernels with two values by this attribute.
        self.kernel.binary = self.kernel_quantizer.bits == 1

    def apply(self, inputs: Any, kernel: Any) -> Any:
        """Returns the linear part of the layer, from quantized inputs and the quantized kernel."""
        raise NotImplementedError

    def call(self, inputs, training=None):
        if "float" not in keras.backend.standardize_dtype(inputs.dtype):
            inputs = ops.cast(inputs, self.compute_dtype)  # layers of Keras accept integers too
        if self.input_sign is not None:
            inputs = self.input_sign(inputs, training=training)
        outputs: Any = self.apply(inputs, self.kernel_sign(self._get_latent(), training=training))
        scale = self.kernel_scale()
        # The scale multiplies the outputs, because the sums of signs above are exact integers.
        if scale is not None:
            scale = self._broadcast(ops.stop_gradient(scale), len(outputs.shape))
            outputs = ops.multiply(outputs, scale)
        if self.bias is not None:
            outputs = ops.add(outputs, self._broadcast(self.bias, len(outputs.shape)))
        return outputs if self.activation is None else self.activation(outputs)

    def _get_latent(self):
        return ops.cast(self.kernel, self.compute_dtype)

    def _broadcast(self, channel_values, rank):
        """Returns one value per output channel in a shape that broadcasts to the outputs."""
        if getattr(self, "data_format", "channels_last") == "channels_last":
            return ops.reshape(channel_values, (-1,))
        return ops.reshape(channel_values, (1, -1, *[1] * (rank - 2)))

    def binary_kernel(self) -> Any:
        """Returns the quantized kernel without its scale.

        Returns:
            A tensor of +1 and -1 in the shape of `kernel` and the compute type of the layer. With
            `"ternary"` it also contains 0, with `"dorefa"` the levels in [-1, 1]; with
            `"stochastic"` it is the kernel of inference. With `"magnitude_aware"` the layer
            computes with this kernel times `kernel_scale()`.
        """
        return self.kernel_quantizer.codes(self._get_latent())

    def kernel_scale(self) -> Any:
        """Returns the scale of the kernel.

        The full kernel is `kernel_scale() * binary_kernel()`. The layer multiplies its outputs by
        the scale, not its kernel.

        Returns:
            For `"magnitude_aware"` a tensor with the rank of `kernel` and length 1 at all axes but
            the axes of the output channels; for other estimators `None`.
        """
        return self.kernel_quantizer.scale(self._get_latent())

    def get_config(self):
        return {
            **super().get_config(),
            "input_estimator": keras.saving.serialize_keras_object(self.input_estimator),
            "kernel_estimator": keras.saving.serialize_keras_object(self.kernel_estimator),
            "implementation": self.implementation,
            "clip": self.clip,
        }
