"""What the layers with a binary kernel share."""

from typing import Any

import keras
from keras import ops

from dann.gradients.estimators import (
    Estimator,
    get_estimator,
    get_kernel_estimator,
    serialize_estimator,
)
from dann.layers.binary_sign import BinarySign
from dann.layers.weight_clip import WeightClip


class BinaryLayer(keras.layers.Layer):
    """A Keras layer whose kernels are quantized inside its `call`; it goes before that layer.

    A subclass names its latent kernels in `latents`, each with the attribute that holds its
    constraint and the axes of its output channels, and computes in `apply`.
    """

    latents: dict[str, tuple[str, tuple[int, ...]]] = {"kernel": ("kernel_constraint", (-1,))}

    def __init__(
        self,
        *args,
        input_estimator: str | Estimator | None = "htanh",
        kernel_estimator: str | Estimator = "htanh",
        way: str = "override",
        clip: bool = True,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self._refuse_float()
        if kernel_estimator is None:
            raise ValueError(
                f"The kernel of {type(self).__name__} must have an estimator, without which it "
                f"would stay in full precision: use `keras.layers.{type(self).__name__[6:]}` for "
                "that. Received: kernel_estimator=None"
            )
        self.input_estimator = input_estimator
        self.kernel_estimator = kernel_estimator
        self.way = way
        self.clip = clip
        self.input_sign = None
        if input_estimator is not None:
            self.input_sign = self._sign(_activation_estimator(input_estimator), "input_sign")
        self.kernel_signs = []
        for name, (constraint, axes) in self.latents.items():
            estimator = get_kernel_estimator(kernel_estimator, axes)
            self.kernel_signs.append(self._sign(estimator, f"{name}_sign"))
            if clip and getattr(self, constraint) is None:
                setattr(self, constraint, WeightClip())

    def _sign(self, estimator, name):
        return BinarySign(self.way, estimator, name=name, dtype=self.dtype_policy)

    def _refuse_float(self):
        rank = getattr(self, "lora_rank", None)
        if rank or self.quantization_mode:
            raise ValueError(
                f"{type(self).__name__} quantizes its kernel itself, and neither a low-rank update "
                "nor one of Keras' quantized types would keep it binary. Received: "
                f"lora_rank={rank}, dtype={self.dtype_policy.name}"
            )

    def build(self, input_shape):
        self._refuse_float()  # again: the policy may be another than at the start
        super().build(input_shape)
        for sign, latent in zip(self.kernel_signs, self.latent_kernels, strict=True):
            # What `dann.optimizers` goes by: a kernel whose codes have two values.
            latent.binary = sign.estimator.bits == 1

    def apply(self, inputs: Any, *kernels: Any) -> Any:
        """The linear part of the layer, of quantized inputs and kernels."""
        raise NotImplementedError

    def call(self, inputs, training=None):
        if self.input_sign is not None:
            inputs = self.input_sign(inputs, training=training)
        kernels = [
            sign(ops.cast(latent, self.compute_dtype), training=training)
            for sign, latent in zip(self.kernel_signs, self.latent_kernels, strict=True)
        ]
        outputs = self.apply(inputs, *kernels)
        if self.bias is not None:
            outputs = ops.add(outputs, self._spread_bias(len(outputs.shape)))
        return outputs if self.activation is None else self.activation(outputs)

    def _spread_bias(self, rank):
        if getattr(self, "data_format", "channels_last") == "channels_last":
            return self.bias
        return ops.reshape(self.bias, (1, -1, *[1] * (rank - 2)))

    @property
    def latent_kernels(self) -> list[keras.Variable]:
        """The trainable kernels, in full precision, whose signs the layer computes with."""
        return [getattr(self, name) for name in self.latents]

    def binary_kernel(self) -> Any:
        """Returns the kernel that the layer computes with, free of scale.

        Returns:
            A tensor of +1 and -1 in the shape of `kernel` (with `"ternary"` also 0, with
            `"dorefa"` the levels in [-1, 1], with `"stochastic"` the kernel of inference), in the
            layer's compute type. With `"magnitude_aware"` the layer multiplies it by
            `kernel_scale()`.
        """
        return self._single(_codes)

    def kernel_scale(self) -> Any:
        """Returns what the layer multiplies `binary_kernel()` by.

        Returns:
            `None` for all estimators but `"magnitude_aware"`, for which it is a tensor with the
            rank of `kernel` that has its length at the axes of the output channels, else 1.
        """
        return self._single(_scale)

    def _single(self, function):
        """`function` of the one kernel, or a tuple of those of several."""
        values = [
            function(sign.estimator, ops.cast(latent, self.compute_dtype))
            for sign, latent in zip(self.kernel_signs, self.latent_kernels, strict=True)
        ]
        return tuple(values) if len(values) > 1 else values[0]

    def quantized_call(self, *args, **kwargs):
        # Where Keras sends a call in place of `call` once the policy is a quantized one.
        self._refuse_float()

    def quantize(self, mode=None, type_check=True, config=None):
        raise ValueError(
            f"{type(self).__name__} is quantized already, to {self.kernel_signs[0].estimator}. "
            f"Leave it out of `quantize`. Received: mode={mode!r}"
        )

    def enable_lora(self, rank, **kwargs):
        raise ValueError(
            f"A low-rank update would take the place of the kernel that {type(self).__name__} "
            f"binarizes. Train the kernel itself. Received: rank={rank}"
        )

    def get_config(self):
        return {
            **super().get_config(),
            "input_estimator": serialize_estimator(self.input_estimator),
            "kernel_estimator": serialize_estimator(self.kernel_estimator),
            "way": self.way,
            "clip": self.clip,
        }


def _activation_estimator(identifier):
    estimator = get_estimator(identifier)
    if estimator.pooled:
        raise ValueError(
            "The estimator of the inputs must treat each value by itself, or predictions would "
            "depend on the rest of their batch: choose another one, or give this one to the "
            f"kernel. Received: input_estimator={estimator!r}"
        )
    return estimator


def _codes(estimator, kernel):
    return estimator.codes(kernel)


def _scale(estimator, kernel):
    return estimator.scale(kernel)
