"""What the layers with a binary kernel share."""

from typing import Any

import keras
from keras import ops

from dann.gradients.estimators import (
    Estimator,
    MagnitudeAware,
    get_estimator,
    get_kernel_estimator,
    serialize_estimator,
)
from dann.layers.binary_sign import BinarySign
from dann.layers.weight_clip import WeightClip


class BinaryLayer(keras.layers.Layer):
    """A Keras layer whose kernels are quantized inside its `call`; it goes before that layer.

    A subclass names its latent kernels in `latents`, each with the attribute that holds its
    constraint and the axes of its output channels, and computes in `apply`. The scale of the last
    kernel multiplies the outputs, so that what is summed are products of signs, which are whole.
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
        self.kernel_estimators = []
        self.kernel_signs = []
        for name, (constraint, axes) in self.latents.items():
            estimator = get_kernel_estimator(kernel_estimator, axes)
            estimator.check_way(way)
            self.kernel_estimators.append(estimator)
            self.kernel_signs.append(self._sign(estimator.of_codes, f"{name}_sign"))
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
        for estimator, name in zip(self.kernel_estimators, self.latents, strict=True):
            latent = getattr(self, name)
            _check_axes(estimator, self.latents[name][1], len(latent.shape))
            # What `dann.optimizers` goes by: a kernel whose codes have two values.
            latent.binary = estimator.bits == 1

    def apply(self, inputs: Any, *kernels: Any) -> Any:
        """The linear part of the layer, of quantized inputs and kernels."""
        raise NotImplementedError

    def quantized_kernels(self, training: bool | None = None) -> tuple[list, list]:
        """Returns the codes of the kernels, to train through, and their scales, detached."""
        kernels, scales = [], []
        signs = zip(self.kernel_estimators, self.kernel_signs, self.latent_kernels, strict=True)
        for estimator, sign, latent in signs:
            latent = ops.cast(latent, self.compute_dtype)
            scale = estimator.scale(latent)
            kernels.append(sign(latent, training=training))
            scales.append(None if scale is None else ops.stop_gradient(scale))
        return kernels, scales

    def call(self, inputs, training=None):
        if "float" not in keras.backend.standardize_dtype(inputs.dtype):
            inputs = ops.cast(inputs, self.compute_dtype)  # as Keras' own layers take whole numbers
        if self.input_sign is not None:
            inputs = self.input_sign(inputs, training=training)
        kernels, scales = self.quantized_kernels(training)
        outputs: Any = self.apply(inputs, *kernels)
        if scales[-1] is not None:
            outputs = ops.multiply(outputs, self._spread(scales[-1], len(outputs.shape)))
        if self.bias is not None:
            outputs = ops.add(outputs, self._spread(self.bias, len(outputs.shape)))
        return outputs if self.activation is None else self.activation(outputs)

    def _spread(self, of_channels, rank):
        if getattr(self, "data_format", "channels_last") == "channels_last":
            return ops.reshape(of_channels, (-1,))
        return ops.reshape(of_channels, (1, -1, *[1] * (rank - 2)))

    @property
    def latent_kernels(self) -> list[keras.Variable]:
        """The trainable kernels, in full precision, whose signs the layer computes with."""
        return [getattr(self, name) for name in self.latents]

    def binary_kernel(self) -> Any:
        """Returns the kernel that the layer computes with, free of scale.

        Returns:
            A tensor of +1 and -1 in the shape of `kernel` (with `"ternary"` also 0, with
            `"dorefa"` the levels in [-1, 1], with `"stochastic"` the kernel of inference), in the
            layer's compute type. With `"magnitude_aware"` the layer's kernel is this times
            `kernel_scale()`.
        """
        return self._single("codes")

    def kernel_scale(self) -> Any:
        """Returns the scale of the kernel, which is `kernel_scale() * binary_kernel()`.

        It multiplies the sums of products of signs, which are whole, and not their summands.

        Returns:
            `None` for all estimators but `"magnitude_aware"`, for which it is a tensor with the
            rank of `kernel` that has its length at the axes of the output channels, else 1.
        """
        return self._single("scale")

    def _single(self, name):
        """What the method of that name gives for the one kernel, or a tuple of it for several."""
        values = [
            getattr(estimator, name)(ops.cast(latent, self.compute_dtype))
            for estimator, latent in zip(self.kernel_estimators, self.latent_kernels, strict=True)
        ]
        return tuple(values) if len(values) > 1 else values[0]

    def quantized_call(self, *args, **kwargs):
        # Where Keras sends a call in place of `call` once the policy is a quantized one.
        self._refuse_float()

    def quantize(self, mode=None, type_check=True, config=None):
        raise ValueError(
            f"{type(self).__name__} is quantized already, to {self.kernel_estimators[0]}. "
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


def _check_axes(estimator, axes, rank):
    """Refuses a scale that does not belong to output channels."""
    if isinstance(estimator, MagnitudeAware):
        wanted, given = ({axis % rank for axis in some} for some in (axes, estimator.axes))
        if wanted != given:
            raise ValueError(
                "The scale of a kernel must belong to its output channels: give the estimator by "
                f"its name, 'magnitude_aware'. Expected axes {sorted(wanted)} of {rank}. "
                f"Received: {estimator!r}"
            )
