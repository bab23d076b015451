from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

# As Keras writes this layer into files. Its own has no registered name there, and somebody else's
# class of this name has another module.
_IN_FILES = {
    "module": "keras.layers",
    "class_name": "BatchNormalization",
    "registered_name": "BatchNormalization",
}
_NAME = "dann>BatchNormalization"


class BatchNormalization(keras.layers.BatchNormalization):
    """Keras's batch normalization, in half to two thirds of the time on TensorFlow.

    Keras computes a training step of it by a dozen operations, each over all activations. This
    layer has one fused operation forward and one backward, with the same values and gradients up to
    rounding. With statistics `m` and `v` of the batch, over all axes but the last:

    - `y = gamma * (x - m) / sqrt(v + epsilon) + beta`
    - `moving = momentum * moving + (1 - momentum) * m`, and the same for `v`

    Where the fused operation does not serve, Keras's own code runs: outside of training, on JAX and
    PyTorch, for inputs `(batch, features)`, where it is no faster, in other types than float32,
    with a mask, `synchronized=True`, `renorm=True` or another axis than the last.

    Files name Keras's layer in its place, so that a network with it loads without `dann`. A model
    of `dann.adaptation` that comes from a file has this layer again; another one has Keras's, and
    so have the copies of it that Keras makes from configs, as `copy.deepcopy` does.

    The arguments are those of `keras.layers.BatchNormalization`.

    Example:

    >>> import keras
    >>> import dann
    >>> layer = dann.layers.BatchNormalization(momentum=0.9)
    >>> layer(keras.ops.ones((2, 3)), training=True).shape
    TensorShape([2, 3])

    Reference:
        - [Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167), algorithm 1.
    """

    __module__ = "keras.layers"  # what files name

    def call(self, inputs, training=None, mask=None):
        if not training or not self._can_be_fused(inputs, mask):
            return super().call(inputs, training=training, mask=mask)
        ones, zeros = (make(inputs.shape[-1:], inputs.dtype) for make in (ops.ones, ops.zeros))
        gamma = ones if self.gamma is None else self.gamma
        beta = zeros if self.beta is None else self.beta
        outputs, mean, variance = _fused(inputs, gamma, beta, self.epsilon)
        for moving, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            moving.assign(moving * self.momentum + value * (1.0 - self.momentum))
        return outputs

    def __reduce__(self):
        # Keras would name the class by its module, where pickle finds another one.
        return _copied, (self.get_config(), self.get_build_config(), self.get_weights())

    def _can_be_fused(self, inputs, mask):
        plain = self.trainable and not self.synchronized and not self.renorm and mask is None
        rank = len(inputs.shape)
        return (
            plain
            and keras.backend.backend() == "tensorflow"
            and rank > 2
            and self.axis in (-1, rank - 1)
            and keras.backend.standardize_dtype(inputs.dtype) == self.compute_dtype == "float32"
        )


def deserialize(config: Any) -> Any:
    """Returns what `keras.saving.deserialize_keras_object` does, with this layer where it was."""
    known = {_NAME: BatchNormalization}  # beside what the caller's scope knows
    return keras.saving.deserialize_keras_object(_named(config), custom_objects=known)


def _named(config):
    """A config in which this layer has a name of its own."""
    if isinstance(config, Mapping):
        ours = all(config.get(key) == value for key, value in _IN_FILES.items())
        named = {key: _named(value) for key, value in config.items()}
        return {**named, "registered_name": _NAME} if ours else named
    return type(config)(map(_named, config)) if isinstance(config, list | tuple) else config


def _copied(config, build_config, weights):
    layer = BatchNormalization.from_config(config)
    if build_config:
        layer.build_from_config(build_config)
        layer.set_weights(weights)
    return layer


def _fused(inputs, gamma, beta, epsilon):
    """Returns the normalized inputs, and the mean and variance of each channel."""
    import tensorflow as tf

    shape = tf.shape(inputs)
    images = inputs if len(inputs.shape) == 4 else tf.reshape(inputs, (-1, 1, 1, shape[-1]))
    outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=images, scale=gamma, offset=beta, mean=(), variance=(), epsilon=epsilon, is_training=True
    )
    count = tf.cast(tf.size(images) // shape[-1], variance.dtype)
    variance *= (count - 1) / count  # the operation divides by one less than there are
    if images is not inputs:
        outputs = tf.ensure_shape(tf.reshape(outputs, shape), inputs.shape)
    return outputs, mean, variance
