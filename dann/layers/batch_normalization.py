from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("dann")
class BatchNormalization(keras.layers.BatchNormalization):
    """Batch normalization with fused operations, faster than the Keras layer on TensorFlow.

    In a training step, Keras computes batch normalization by a dozen operations, each over all
    activations. This layer uses one fused operation in the forward pass and one in the backward
    pass, with the same values and gradients up to rounding. With the mean `m` and the variance `v`
    of the batch over all axes but the last:

    - `y = gamma * (x - m) / sqrt(v + epsilon) + beta`
    - `moving = momentum * moving + (1 - momentum) * m`, and the same for `v`

    The layer falls back to the code of Keras outside of training, on JAX and PyTorch, for inputs
    `(batch, features)`, where the fused operation is no faster, for types other than float32, and
    with a mask, `synchronized=True`, `renorm=True` or an axis other than the last.

    To load a file with this layer, import `dann` first. `dann.deployment.export` with the
    format `"keras"` writes a file that loads without `dann`; the classifier of a run is saved in
    this form.

    The arguments are the same as in `keras.layers.BatchNormalization`.

    Example:

    >>> import keras
    >>> import dann
    >>> layer = dann.layers.BatchNormalization(momentum=0.9)
    >>> tuple(layer(keras.ops.ones((2, 3)), training=True).shape)
    (2, 3)

    Reference:
        - [Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167), algorithm 1.
    """

    def call(self, inputs, training=None, mask=None):
        if not training or not self._can_be_fused(inputs, mask):
            return super().call(inputs, training=training, mask=mask)
        shape, dtype = inputs.shape[-1:], inputs.dtype
        gamma = ops.ones(shape, dtype) if self.gamma is None else self.gamma
        beta = ops.zeros(shape, dtype) if self.beta is None else self.beta
        outputs, mean, variance = _normalize_fused(inputs, gamma, beta, self.epsilon)
        for moving, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            moving.assign(moving * self.momentum + value * (1.0 - self.momentum))
        return outputs

    def _can_be_fused(self, inputs, mask):
        # The operation knows no mask, and normalizes the last axis of the examples of one process.
        rank = len(inputs.shape)
        return (
            keras.backend.backend() == "tensorflow"
            and self.trainable
            and not (self.synchronized or self.renorm)
            and mask is None
            and rank > 2
            and self.axis in (-1, rank - 1)
            and keras.backend.standardize_dtype(inputs.dtype) == self.compute_dtype == "float32"
        )


def with_keras_batch_normalization(network: Any) -> Any:
    """Returns the network with `keras.layers.BatchNormalization` instead of this package's layer.

    The new network computes the same values, loads without `dann`, and shares all other layers. A
    layer inside a custom layer or model class is not replaced.

    Args:
        network: Functional or sequential model.
    """
    if not _has_fused(network):
        return network

    def replace(layer):
        if type(layer) is BatchNormalization:
            return keras.layers.BatchNormalization.from_config(layer.get_config())
        return layer

    clone = keras.models.clone_model(network, clone_function=replace, recursive=True)
    clone.set_weights(network.get_weights())
    return clone


def _has_fused(network):
    layers = getattr(network, "layers", ())
    return any(type(layer) is BatchNormalization or _has_fused(layer) for layer in layers)


def _normalize_fused(inputs, gamma, beta, epsilon):
    """Returns the normalized inputs, and the mean and variance of each channel."""
    import tensorflow as tf

    # (batch * positions, 1, 1, channels) for inputs that are not images
    shape = tf.shape(inputs)
    images = inputs if len(inputs.shape) == 4 else tf.reshape(inputs, (-1, 1, 1, shape[-1]))
    outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=images, scale=gamma, offset=beta, mean=(), variance=(), epsilon=epsilon, is_training=True
    )
    count = tf.cast(tf.size(images) // shape[-1], variance.dtype)
    # The operation divides the sum of squares by `count - 1`, the formula of the paper by `count`.
    variance *= (count - 1) / count
    if images is not inputs:
        outputs = tf.ensure_shape(tf.reshape(outputs, shape), inputs.shape)
    return outputs, mean, variance
