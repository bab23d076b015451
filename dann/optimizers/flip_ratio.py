import keras
import numpy as np

from dann.optimizers.per_variable import is_binary


class FlipRatio(keras.callbacks.Callback):
    """Logs the fraction of weights that changed their sign in an epoch, for each binary layer.

    The fraction falls as the binary weights settle. A layer without flips has stopped learning. A
    layer that keeps flipping many of its weights needs a lower learning rate or, with
    `dann.optimizers.Bop`, a higher threshold.

    At the end of each epoch, the fractions, in [0, 1], are added to the logs as `flips/<layer>`;
    only callbacks that come *after* this one in the list see them. A weight that changed its sign
    twice in the epoch counts as unchanged. Layers with the same name are counted together. The
    model must be built.

    Raises:
        ValueError: When training begins, if the model has no trainable binary layer.

    Example:

    >>> from dann.optimizers import FlipRatio
    >>> callbacks = [FlipRatio(), keras.callbacks.CSVLogger("metrics.csv")]

    Reference:
        - [Helwegen et al., 2019](https://arxiv.org/abs/1906.02107), section 5, who report the
          logarithm of this share for single steps.
    """

    def on_train_begin(self, logs=None):
        self._signs = self.check(self.model)

    def check(self, model):
        """Returns the signs of the trainable binary kernels; scripts call it before training.

        Raises:
            ValueError: If the model has no such kernels.
        """
        signs = _compute_signs(model)
        if not signs:
            raise ValueError(
                "`FlipRatio` needs a built model with trainable binary layers. Received: "
                f"{model.name}, which has none. Build the model first, or remove the callback"
            )
        return signs

    def on_epoch_end(self, epoch, logs=None):
        signs = _compute_signs(self.model)
        shares = {f"flips/{name}": np.mean(signs[name] != self._signs[name]) for name in signs}
        self._signs = signs
        if logs is not None:
            logs.update({name: float(share) for name, share in shares.items()})


def _compute_signs(model):
    """Returns whether each weight is at least 0, by layer; `sign(0) = +1`."""
    if keras.backend.backend() == "jax":  # the variables are stale within an epoch
        model.jax_state_sync()
    signs = {}
    for variable in filter(is_binary, model.trainable_variables):
        layer = variable.path.split("/")[-2]
        kernel = keras.ops.convert_to_numpy(variable)
        signs[layer] = np.append(signs.get(layer, []), kernel >= 0)
    return signs
