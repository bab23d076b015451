"""The callbacks of a training whose devices share the weights: the first group calls them."""

from typing import Any

from dann.adaptation.shared_weights import in_first_group
from dann.training.resumable_callbacks import ResumableCallbacks


class FirstGroupCallbacks(ResumableCallbacks):
    """Callbacks that compute with the model on the first group of devices; see `in_first_group`."""

    def _grouped(self):
        model: Any = self._model  # `model` would take the state out of the steps
        return in_first_group(model)

    def on_train_begin(self, logs=None):
        with self._grouped():
            super().on_train_begin(logs)

    def on_train_end(self, logs=None):
        with self._grouped():
            super().on_train_end(logs)

    def on_epoch_begin(self, epoch, logs=None):
        with self._grouped():
            super().on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        with self._grouped():
            super().on_epoch_end(epoch, logs)

    def on_train_batch_end(self, batch, logs=None):
        with self._grouped():
            super().on_train_batch_end(batch, logs)
