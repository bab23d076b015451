import keras
import numpy as np

from dann.checks import check_integer
from dann.optimizers.per_variable import is_binary


class FlipRatio(keras.callbacks.Callback):
    """Logs for each binary layer the share of weights that changed their sign.

    The share falls as binary weights settle. A layer that flips nothing has stopped learning. One
    that keeps flipping several percent of its weights needs a lower learning rate, or with
    `dann.optimizers.Bop` a higher threshold.

    At the end of each epoch the shares, in [0, 1], enter the logs as `flips/<layer>`, for the
    callbacks *after* this one in the list. A weight that changed its sign twice between two looks
    counts as unchanged. Layers of one name count together. The model must be built.

    Args:
        every: Number of training steps between two looks, at least 1. Each epoch logs the mean of
            its looks, or nothing if it had none. Defaults to `None`: one look at the end of each
            epoch.

    Raises:
        ValueError: When training begins, if the model has no binary layer that trains.

    Example:

    >>> from dann.optimizers import FlipRatio
    >>> callbacks = [FlipRatio(), keras.callbacks.CSVLogger("metrics.csv")]

    Reference:
        - [Helwegen et al., 2019](https://arxiv.org/abs/1906.02107), section 5, who watch the
          logarithm of this share, taken over a step.
    """

    def __init__(self, every: int | None = None):
        super().__init__()
        self.every = None if every is None else check_integer("every", every, low=1)

    def on_train_begin(self, logs=None):
        self._steps = 0
        self._signs = self.check(self.model)

    def check(self, model):
        """Signs of a model's kernels; `ValueError` if none trains. A run asks before it begins."""
        signs = _signs_of(model)
        if not signs:
            raise ValueError(
                "`FlipRatio` watches binary layers; leave it out for others, and build the model "
                f"before. Received: {model.name}, in which none trains"
            )
        return signs

    def on_epoch_begin(self, epoch, logs=None):
        self._steps_before_epoch = self._steps
        self._shares = {name: [] for name in self._signs}

    def on_train_batch_end(self, batch, logs=None):
        # Under `steps_per_execution` several steps end at once; `batch` is the last of them.
        steps = self._steps_before_epoch + batch + 1
        if self.every is not None and steps // self.every > self._steps // self.every:
            self._look()
        self._steps = steps

    def on_epoch_end(self, epoch, logs=None):
        if self.every is None:
            self._look()
        for name, shares in self._shares.items():
            if logs is not None and shares:
                logs[f"flips/{name}"] = float(np.mean(shares))

    def _look(self):
        now = _signs_of(self.model)
        for name, signs in now.items():
            self._shares[name].append(np.mean(signs != self._signs[name]))
        self._signs = now


def _signs_of(model):
    """The signs of the kernels by layer, as booleans; `sign(0) = +1`."""
    if keras.backend.backend() == "jax":
        model.jax_state_sync()
    signs = {}
    for variable in filter(is_binary, model.trainable_variables):
        layer = variable.path.split("/")[-2]
        kernel = keras.ops.convert_to_numpy(variable)
        signs[layer] = np.append(signs.get(layer, []), kernel >= 0)
    return signs
