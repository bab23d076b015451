import keras
import numpy as np

from dann.checks import check_integer
from dann.optimizers.per_variable import is_binary


class FlipRatio(keras.callbacks.Callback):
    """Logs the share of weights that changed their sign, for each binary layer.

    The share falls as the binary weights settle. A layer without flips has stopped learning. A
    layer that keeps flipping several percent of its weights needs a lower learning rate or, with
    `dann.optimizers.Bop`, a higher threshold.

    At the end of each epoch the shares, in [0, 1], are added to the logs as `flips/<layer>`, where
    the callbacks that come *after* this one in the list find them. A weight that changed its sign
    twice between two measurements counts as unchanged. Layers with the same name are counted
    together. The model must be built.

    Args:
        every_n_steps: Number of training steps between two measurements, at least 1. Each epoch
            logs the mean of its measurements, or nothing if there was none. Defaults to `None`: one
            measurement at the end of each epoch.

    Raises:
        ValueError: When training begins, if the model has no trainable binary layer.

    Example:

    >>> from dann.optimizers import FlipRatio
    >>> callbacks = [FlipRatio(), keras.callbacks.CSVLogger("metrics.csv")]

    Reference:
        - [Helwegen et al., 2019](https://arxiv.org/abs/1906.02107), section 5, who report the
          logarithm of this share for single steps.
    """

    def __init__(self, every_n_steps: int | None = None):
        super().__init__()
        if every_n_steps is not None:
            every_n_steps = check_integer("every_n_steps", every_n_steps, low=1)
        self.every_n_steps = every_n_steps

    def on_train_begin(self, logs=None):
        self._steps = 0
        self._signs = self.check(self.model)

    def check(self, model):
        """Returns the signs of the trainable binary kernels; scripts call it before training.

        Raises:
            ValueError: If there are none.
        """
        signs = _compute_signs(model)
        if not signs:
            raise ValueError(
                "`FlipRatio` needs a built model with trainable binary layers. Received: "
                f"{model.name}, which has none. Build the model first, or leave the callback out"
            )
        return signs

    def on_epoch_begin(self, epoch, logs=None):
        self._steps_before_epoch = self._steps
        self._shares = {name: [] for name in self._signs}

    def on_train_batch_end(self, batch, logs=None):
        # With `steps_per_execution`, several steps end at once; `batch` is the last one.
        steps = self._steps_before_epoch + batch + 1
        interval = self.every_n_steps
        if interval is not None and steps // interval > self._steps // interval:
            self._measure()
        self._steps = steps

    def on_epoch_end(self, epoch, logs=None):
        if self.every_n_steps is None:
            self._measure()
        for name, shares in self._shares.items():
            if logs is not None and shares:
                logs[f"flips/{name}"] = float(np.mean(shares))

    def _measure(self):
        signs = _compute_signs(self.model)
        for name in signs:
            self._shares[name].append(np.mean(signs[name] != self._signs[name]))
        self._signs = signs


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
