"""Batch normalization with the statistics of the target."""

from typing import Any

import keras
import numpy as np

from dann.adaptation.networks import copy_network
from dann.adaptation.prediction import to_numpy
from dann.data.examples import Examples, OrderedBatches, check_frame_columns


def adapt_batch_norm(network: keras.Model, inputs: Any, batch_size: int = 256) -> keras.Model:
    """Returns a copy of a network with the batch statistics of the target (AdaBN).

    In the copy, the moving mean and variance of each layer of batch normalization are the mean and
    the (biased) variance of the layer's inputs over all target examples. The layers are adapted in
    the order of the network: the inputs of a layer are computed in inference mode, after all
    earlier layers are adapted. The result therefore does not depend on `batch_size`. All other
    weights are unchanged. Masked time steps are excluded.

    The copy is a plain Keras model. Adaptation needs one pass over the inputs per layer of batch
    normalization, and no labels.

    Args:
        network: A functional or sequential model, or a method, whose `classifier` is used.
        inputs: Target inputs: array-like `(n, ...)`, or a nested structure of array-likes.
        batch_size: Number of examples per batch. Defaults to `256`.

    Raises:
        ValueError: If the network has no batch normalization, a custom layer contains batch
            normalization, or data frames have other columns than in `fit`.

    Example:

    >>> import dann, keras, numpy as np
    >>> layers = [keras.Input((1,)), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
    >>> network = dann.adapt_batch_norm(keras.Sequential(layers), np.array([[1.0], [5.0]]))
    >>> network.layers[0].moving_mean.numpy().tolist()
    [3.0]

    Reference:
        - [Li et al., 2017](https://arxiv.org/abs/1603.04779), algorithm 1.
    """
    check_frame_columns(inputs, getattr(network, "frame_columns", ()))
    classifier: Any = getattr(network, "classifier", network)
    normalizations: list[_MeasuredNormalization] = []

    def copy_layer(layer):
        if not isinstance(layer, keras.layers.BatchNormalization):
            return type(layer).from_config(layer.get_config())
        normalizations.append(_MeasuredNormalization.from_config(layer.get_config()))
        return normalizations[-1]

    # Keras copies the layers in the order in which the network calls them. The loop below relies on
    # this order.
    clone = keras.models.clone_model(classifier, clone_function=copy_layer, recursive=True)
    layers = classifier._flatten_layers()  # Keras has no public name for this list
    total = sum(isinstance(layer, keras.layers.BatchNormalization) for layer in layers)
    if not normalizations or len(normalizations) < total:
        raise ValueError(
            "Expected a network with layers of batch normalization, none of them within a custom "
            f"layer. Received: {classifier.name!r} with {total} such layers, "
            f"{total - len(normalizations)} of them within a custom layer."
        )
    clone.set_weights(classifier.get_weights())
    batches = OrderedBatches(Examples({"inputs": inputs}, "target"), batch_size)
    for layer in normalizations:
        layer.moments = np.zeros((3, *layer.moving_mean.shape))
        for (batch,) in batches:
            clone(batch, training=False)
        count, sums, squares = layer.moments
        mean = sums / count  # (channels,)
        layer.moving_mean.assign(mean)
        layer.moving_variance.assign(squares / count - mean**2)
        layer.moments = None
    # A second copy, because the clone contains private layers that cannot be saved.
    result = copy_network(classifier)
    result.set_weights(clone.get_weights())
    return result


class _MeasuredNormalization(keras.layers.BatchNormalization):
    """Batch normalization that adds up the moments of its inputs.

    Attributes:
        moments: Count, sum and sum of squares per channel, `(3, channels)`; `None` turns it off.
    """

    moments: Any = None

    def call(self, inputs, training=None, mask=None):
        if self.moments is not None:
            # In float64, because the variance is a difference of large numbers.
            values = np.moveaxis(to_numpy(inputs), self.axis, -1).astype("float64")
            is_valid = np.ones(values.shape[:-1], bool) if mask is None else to_numpy(mask)
            rows = values[is_valid]  # (examples and positions, channels)
            self.moments += [np.full(rows.shape[1], len(rows)), rows.sum(0), (rows**2).sum(0)]
        return super().call(inputs, training=training, mask=mask)
