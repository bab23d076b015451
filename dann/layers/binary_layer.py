"""The base of layers with a binary kernel."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.gradients.estimators import (
    Estimator,
    get_estimator,
    get_kernel_estimator,
    name_or_estimator,
)
from dann.layers.binary_sign import BinarySign
from dann.layers.weight_clip import WeightClip


class BinaryLayer(keras.layers.Layer):
    """A Keras layer with a binary kernel and binary inputs; goes before the Keras class.

    - forward: `y = activation(f(q(x), q(W)) + b)`, where `f` is the layer's linear part and `q` the
      sign, or what the estimator gives
    - backward: the estimators' gradients, through `q` to `x` and to the latent kernel `W`

    Each call quantizes the kernel. `kernel` is the latent kernel, which trains;
    `binary_kernel()` returns the quantized one.

    A subclass computes `f` in `apply`, and names in `channel_axes` the axes of its kernel's output
    channels and in `constraint` the attribute that holds the kernel's constraint. The scale of the
    kernel multiplies the outputs; so the layer sums products of signs, which are integers.

    Args:
        *args, **kwargs: The arguments of the Keras layer, with its defaults: a bias, which a batch
            norm after the layer makes superfluous, and `"glorot_uniform"`.
        input_estimator: How to quantize the inputs: a name or an object of
            `dann.gradients.estimators`, a function or layer that quantizes, as larq's (see
            `dann.gradients.estimators.Quantizer`), or `None` to take them as they are, as the first
            layer of a network does. Defaults to `"htanh"`.
        kernel_estimator: How to quantize the kernel: a name, an object, a function or a layer,
            never `None`. Defaults to `"htanh"`.
        implementation: How to build the gradients: `"override"` (default), `"stop_gradient"` or
            `"op_override"`; see `dann.gradients.binary_sign`.
        clip: Whether `WeightClip` keeps latent weights in [-1, 1]. Your own constraint replaces
            it. Defaults to `True`.

    Raises:
        TypeError: If the kernel has no estimator.
        ValueError: If an estimator or `implementation` is unknown; if the inputs' estimator
            depends on the whole batch; or if `dtype` or `lora_rank` would replace the binary kernel.

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
            self._refuse_float()
        self.input_estimator = name_or_estimator(input_estimator)
        self.kernel_estimator = name_or_estimator(kernel_estimator)
        self.implementation = implementation
        self.clip = clip
        self.input_sign = None
        if input_estimator is not None:
            self.input_sign = self._sign(_activation_estimator(self.input_estimator), "input_sign")
        self.kernel_quantizer = get_kernel_estimator(self.kernel_estimator, self.channel_axes)
        self.kernel_quantizer.check_implementation(implementation)
        self.kernel_sign = self._sign(self.kernel_quantizer.of_codes, "kernel_sign")
        if clip and getattr(self, self.constraint) is None:
            setattr(self, self.constraint, WeightClip())

    def _sign(self, estimator, name):
        return BinarySign(self.implementation, estimator, name=name, dtype=self.dtype_policy)

    def _refuse_float(self, *args, **kwargs):
        rank = getattr(self, "lora_rank", None)
        raise ValueError(
            f"{type(self).__name__} quantizes its kernel itself. A low-rank update or one of "
            "Keras's quantized types would not keep it binary. Received: "
            f"lora_rank={rank}, dtype={self.dtype_policy.name}"
        )

    # Keras calls `quantized_call` instead of `call` once the policy is a quantized one.
    quantize = enable_lora = quantized_call = _refuse_float

    def build(self, input_shape):
        super().build(input_shape)
        # `dann.optimizers` looks for this mark of kernels with two values.
        self.kernel.binary = self.kernel_quantizer.bits == 1

    def apply(self, inputs: Any, kernel: Any) -> Any:
        """Returns the linear part of the layer, from quantized inputs and the quantized kernel."""
        raise NotImplementedError

    def call(self, inputs, training=None):
        if "float" not in keras.backend.standardize_dtype(inputs.dtype):
            inputs = ops.cast(inputs, self.compute_dtype)  # Keras's own layers take integers too
        if self.input_sign is not None:
            inputs = self.input_sign(inputs, training=training)
        outputs: Any = self.apply(inputs, self.kernel_sign(self._latent(), training=training))
        scale = self.kernel_scale()
        if scale is not None:
            scale = self._spread(ops.stop_gradient(scale), len(outputs.shape))
            outputs = ops.multiply(outputs, scale)
        if self.bias is not None:
            outputs = ops.add(outputs, self._spread(self.bias, len(outputs.shape)))
        return outputs if self.activation is None else self.activation(outputs)

    def _latent(self):
        return ops.cast(self.kernel, self.compute_dtype)

    def _spread(self, of_channels, rank):
        if getattr(self, "data_format", "channels_last") == "channels_last":
            return ops.reshape(of_channels, (-1,))
        return ops.reshape(of_channels, (1, -1, *[1] * (rank - 2)))

    def binary_kernel(self) -> Any:
        """Returns the kernel that the layer computes with, free of scale.

        Returns:
            A tensor of +1 and -1 in the shape of `kernel` (with `"ternary"` also 0, with
            `"dorefa"` the levels in [-1, 1], with `"stochastic"` the kernel of inference), in the
            layer's compute type. With `"magnitude_aware"` the layer's kernel is this times
            `kernel_scale()`.
        """
        return self.kernel_quantizer.codes(self._latent())

    def kernel_scale(self) -> Any:
        """Returns the scale of the kernel, which is `kernel_scale() * binary_kernel()`.

        The layer multiplies its outputs by it, not the kernel.

        Returns:
            For `"magnitude_aware"` a tensor with the rank of `kernel`, of length 1 at all axes but
            those of the output channels; for other estimators `None`.
        """
        return self.kernel_quantizer.scale(self._latent())

    def get_config(self):
        return {
            **super().get_config(),
            "input_estimator": keras.saving.serialize_keras_object(self.input_estimator),
            "kernel_estimator": keras.saving.serialize_keras_object(self.kernel_estimator),
            "implementation": self.implementation,
            "clip": self.clip,
        }


def _activation_estimator(identifier):
    estimator = get_estimator(identifier)
    if estimator.pooled:
        raise ValueError(
            "The estimator of the inputs must treat each value separately, because predictions "
            "must not depend on the rest of their batch. Choose another one, or use this one for "
            f"the kernel. Received: input_estimator={estimator!r}"
        )
    return estimator
