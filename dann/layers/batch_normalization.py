from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("dann")
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

    A file of it loads where `dann` is imported. `with_keras_batch_normalization` makes a network
    that loads without; the classifier of a run is saved so.

    The arguments are those of `keras.layers.BatchNormalization`.

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
        ones, zeros = (make(inputs.shape[-1:], inputs.dtype) for make in (ops.ones, ops.zeros))
        gamma = ones if self.gamma is None else self.gamma
        beta = zeros if self.beta is None else self.beta
        outputs, mean, variance = _fused(inputs, gamma, beta, self.epsilon)
        for moving, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            moving.assign(moving * self.momentum + value * (1.0 - self.momentum))
        return outputs

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


def with_keras_batch_normalization(network: Any) -> Any:
    """Returns the network with Keras's batch normalization in the place of this package's.

    It computes the same, loads without `dann`, and shares all layers but these. A layer inside of a
    class of one's own stays as it is.

    Args:
        network: Functional or sequential model.
    """
    if not _has_fused(network):
        return network

    def replaced(layer):
        if type(layer) is BatchNormalization:
            return keras.layers.BatchNormalization.from_config(layer.get_config())
        return layer

    clone = keras.models.clone_model(network, clone_function=replaced, recursive=True)
    clone.set_weights(network.get_weights())
    return clone


def _has_fused(network):
    layers = getattr(network, "layers", ())
    return any(type(layer) is BatchNormalization or _has_fused(layer) for layer in layers)


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
