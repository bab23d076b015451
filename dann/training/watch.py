"""What looks at a model after every epoch, and how it looks at averaged weights."""

from collections.abc import Sequence
from typing import Any

import keras


def on_final_weights(
    optimizer: keras.optimizers.Optimizer, callbacks: Sequence[keras.callbacks.Callback]
) -> list[keras.callbacks.Callback]:
    """Returns callbacks that see the weights with which the training would end now.

    With `use_ema=True` an optimizer trains one set of weights and ends with their moving average;
    these callbacks then see the average, and what stands after them in the list the weights that
    train, as a checkpoint to go on from needs them.

    Args:
        optimizer: The optimizer of the model.
        callbacks: What looks at the model at the end of an epoch.
    """
    if not callbacks or not _averages(optimizer):
        return list(callbacks)
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    return [swap, *callbacks, _SwapBack(swap)]


def keep_best(name: str, epochs: int) -> keras.callbacks.Callback:
    """Returns a callback that ends the training with the weights of the epoch with the best score.

    Args:
        name: What to go by in the logs; higher is better.
        epochs: Number of epochs, none of which is left out.
    """
    return keras.callbacks.EarlyStopping(
        monitor=name, mode="max", patience=epochs, restore_best_weights=True
    )


class _SwapBack(keras.callbacks.Callback):
    def __init__(self, swap):
        super().__init__()
        self.swap = swap

    def on_epoch_end(self, epoch, logs=None):
        self.swap.on_epoch_begin(epoch)


def _averages(optimizer: Any) -> bool:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return any(one.use_ema for one in getattr(inner, "optimizers", [inner]))
