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
    counts as unchanged. Layers with the same name get a number. If the first batch builds the
    model, TensorFlow shows its weights only from the end of that step on, and the flips of that
    step do not count. (On JAX, Keras builds the model before.)

    Args:
        every: Number of training steps between two looks, at least 1. Each epoch logs the mean of
            its looks, or nothing if it had none. Defaults to `None`: one look at the end of each
            epoch.

    Raises:
        ValueError: In training, if no binary layer of the model trains. If the first batch builds
            the model, this error comes after that batch.

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
        self._kernels = {}
        self._signs = {}
        self._steps = self._steps_before_epoch = self._first_step = 0
        self._unbuilt = False
        self._shares = []

    def check(self, model: keras.Model) -> None:
        """Raises the error of the start of training, if the model is built."""
        if _is_built(model):
            _require_kernels(model)

    def on_train_begin(self, logs=None):
        self._unbuilt = not _is_built(self.model)
        if not self._unbuilt:
            _require_kernels(self.model)
        self._kernels = {}
        self._find()
        self._steps = self._steps_before_epoch = self._first_step = 0

    def _find(self):
        """Starts to watch layers that are new, and returns whether there are any."""
        kernels = _kernels_by_layer(self.model)
        new = len(kernels) > len(self._kernels)
        if new:
            self._kernels = kernels
            self._signs = self._now()
        return new

    def on_epoch_begin(self, epoch, logs=None):
        self._steps_before_epoch = self._steps
        self._shares = []

    def on_train_batch_end(self, batch, logs=None):
        # Under `steps_per_execution` several steps end at once; `batch` is the last of them.
        steps = self._steps_before_epoch + batch + 1
        first, self._unbuilt = self._unbuilt, False
        if first:
            _require_kernels(self.model)
        if first and self._find():
            self._first_step = steps
        elif self.every is not None and steps // self.every > self._steps // self.every:
            self._look()
        self._steps = steps

    def on_epoch_end(self, epoch, logs=None):
        if self.every is None and self._steps > self._first_step:
            self._look()
        if logs is not None and self._shares:
            for name in self._kernels:
                shares = [look[name] for look in self._shares]
                logs[f"flips/{name}"] = float(np.mean(shares))

    def _look(self):
        now = self._now()
        self._shares.append({name: np.mean(now[name] != self._signs[name]) for name in now})
        self._signs = now

    def _now(self):
        """The signs of the kernels by layer, as booleans; `sign(0) = +1`."""
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        return {
            name: np.concatenate(
                [(keras.ops.convert_to_numpy(kernel) >= 0).ravel() for kernel in kernels]
            )
            for name, kernels in self._kernels.items()
        }


def _is_built(model):
    return all(layer.built for layer in model._flatten_layers())


def _require_kernels(model):
    if not _kernels_by_layer(model):
        raise ValueError(
            "`FlipRatio` watches binary layers; leave it out for others. Received: "
            f"{model.name}, in which none trains"
        )


def _kernels_by_layer(model):
    """The trainable binary variables by the name of their layer, in the model's order."""
    owners = {}
    for layer in model._flatten_layers():
        for variable in layer.trainable_variables:
            # Models and wrappers hold the variable too; the layer has the fewest variables.
            owner = owners.get(id(variable), (layer, variable))[0]
            if is_binary(variable) and len(layer.variables) <= len(owner.variables):
                owners[id(variable)] = layer, variable
    layers = list({id(layer): layer for layer, _ in owners.values()}.values())
    names = [layer.name for layer in layers]
    return {
        f"{name}/{names[:place].count(name)}" if name in names[:place] else name: [
            variable for owner, variable in owners.values() if owner is layer
        ]
        for place, (name, layer) in enumerate(zip(names, layers, strict=True))
    }
