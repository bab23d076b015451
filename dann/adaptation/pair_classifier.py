from typing import Any

import keras

from dann.adaptation.forward_pass import ForwardPass, Losses


class PairClassifier(keras.Model):
    """What Keras asks of a classifier that trains on pairs and is else given plain inputs.

    A subclass sets `num_classes`, and its `call` returns a `ForwardPass` for a pair, logits for
    plain inputs. Its `step_losses` gives the losses of a `ForwardPass`.

    Loss and metrics that are compiled are those of the labels. What only pairs can tell is logged
    by trackers, and stays out of the logs of plain inputs.
    """

    num_classes: int

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.trackers = {}

    def track(self, *names: str) -> None:
        """Logs the mean over an epoch of what is known by these names."""
        self.trackers.update({name: keras.metrics.Mean(name=name) for name in names})

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        if loss is None:
            if self.num_classes == 1:
                raise ValueError(
                    "A label head of one output predicts a number; give `loss`, such as 'mse'. "
                    "Received: no loss, which means cross-entropy of classes"
                )
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self._labels_are_classes = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)

    def make_train_function(self, force=False):
        # A step that makes variables is traced twice, and that is most of how long `fit` starts.
        late = any(map(_makes_weights, self._flatten_layers()))
        if not (late or self.optimizer.built):
            self.optimizer.build(self.trainable_variables)
        metrics = self._compile_metrics
        if self._labels_are_classes and metrics is not None and not metrics.built:
            metrics.build(keras.KerasTensor((None,)), keras.KerasTensor((None, self.num_classes)))
        return super().make_train_function(force)

    def compile_from_config(self, config):
        # Keras leaves this to whoever overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compiled_loss(self, x, y, logits, sample_weight=None, training=True) -> Any:
        """Returns the loss given to `compile`, and those of the layers, a scalar."""
        return super().compute_loss(x, y, logits, sample_weight, training=training)

    def step_losses(self, x, y, forward, sample_weight=None, training=True) -> Losses:
        """Returns what a step on a pair descends and logs; see `AdversarialModel.pair_losses`."""
        raise NotImplementedError

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if isinstance(y_pred, ForwardPass):
            losses = self.step_losses(x, y, y_pred, sample_weight, training)
            for name, arguments in losses.logged.items():
                if name in self.trackers:
                    self.trackers[name].update_state(*arguments)
            return losses.total
        if training:
            self._accept_plain_training()
        return super().compute_loss(x, y, y_pred, sample_weight, training=training)

    def _accept_plain_training(self):
        raise ValueError(
            f"`{type(self).__name__}` trains on pairs ({{'source': ..., 'target': ...}}, labels); "
            "`dann.data.pair` makes them. Received: inputs of one domain"
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        paired = isinstance(y_pred, ForwardPass)
        label = y_pred.label if paired else y_pred
        logs = super().compute_metrics(x, y, label, sample_weight=sample_weight)
        if paired:
            return logs
        # What only pairs can tell stands still here; a stale number would mislead.
        return {name: value for name, value in logs.items() if name not in self.trackers}


def _makes_weights(layer):
    """Whether a layer may make weights when it is first called."""
    makes_none = type(layer).build is keras.layers.Layer.build
    return not (layer.built or makes_none or isinstance(layer, keras.Sequential))
