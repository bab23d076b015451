import contextlib
from typing import Any

import keras
from keras import ops

from dann.adaptation import masks
from dann.adaptation.augmentation import let_jax_compile
from dann.adaptation.fit_arguments import (
    by_name,
    check_counts,
    labels_in_memory,
    refuse_endless,
    refuse_split,
    refuse_weights,
    refuse_weights_of_maps,
    validation_arrays,
    warn_of_backups,
)
from dann.adaptation.forward_pass import ForwardPass, Losses, is_pair
from dann.adaptation.label_checks import check_form, check_range, wrong_labels_told
from dann.adaptation.logit_losses import loss_of_logits, metrics_of_logits
from dann.adaptation.replicas import (
    check_optimizer,
    devices_of,
    each_device_alone,
    replicas_of,
    share_of_replica,
    strategy_scope,
    whole_of_replica,
)
from dann.adaptation.training_state import (
    KeepTrained,
    averages_weights,
    load_training_state,
    makes_weights,
    put_trained_back,
    save_training_state,
    unshare,
)
from dann.data.pairs import Pairs
from dann.data.tensorflow_pairs import in_tensorflow


class PairClassifier(keras.Model):
    """A classifier for Keras that trains on pairs and otherwise takes plain inputs.

    A subclass sets `num_classes`, and its `call` returns a `ForwardPass` for a pair, logits for
    plain inputs. Its `step_losses` gives the losses of a `ForwardPass`.

    The compiled loss and metrics are those of the labels. Trackers log what only pairs have; the
    logs of plain inputs leave it out.
    """

    num_classes: int

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.trackers = {}

    def track(self, *names: str) -> None:
        """Adds a tracker for each name, which logs a mean over the epoch."""
        self.trackers.update({name: keras.metrics.Mean(name=name) for name in names})

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        if loss is None:
            if self.num_classes == 1:
                raise ValueError(
                    "A label head with one output predicts a number; give `loss`, such as 'mse'. "
                    "Received: no loss, which means the cross-entropy of classes"
                )
            loss = "sparse_categorical_crossentropy"
        loss = loss_of_logits(loss)
        for kind in ("metrics", "weighted_metrics"):
            if kwargs.get(kind):
                kwargs[kind] = metrics_of_logits(kwargs[kind], loss)
        let_jax_compile(self._flatten_layers())
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self._labels_are_classes = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)

    def fit(self, x=None, y=None, *args, **kwargs):
        kwargs = by_name(super().fit, x, y, *args, **kwargs)
        for labels in [*labels_in_memory(x, y), *labels_in_memory(*validation_arrays(kwargs))]:
            check_range(labels, self.num_classes, getattr(self, "loss", None))
            refuse_weights_of_maps(labels, self.num_classes, kwargs.get("class_weight"))
        check_counts(x)
        callbacks, pairs, moves_on = kwargs.get("callbacks"), x, False
        if y is None and (isinstance(x, Pairs) or not isinstance(x, keras.utils.PyDataset)):
            # Keras would shuffle the batches of a dataset, or warn that it does not.
            kwargs = {"shuffle": False, **kwargs}
        if isinstance(pairs, Pairs):
            refuse_split(kwargs.get("validation_split"))
            refuse_weights(kwargs.get("sample_weight"))
            count = pairs.num_batches
            refuse_endless("steps_per_epoch", count, kwargs.get("steps_per_epoch"))
            warn_of_backups(callbacks)
            if count and pairs.by_index and count % self.steps_per_execution == 0:
                kwargs["steps_per_epoch"] = kwargs.get("steps_per_epoch") or count
                moves_on = True  # here, not in Keras, which reads batches beforehand
            ordered = pairs.endless() if moves_on else pairs
            x = ordered
            if ordered.num_batches is None and ordered.by_index and devices_of(self) == 1:
                x = in_tensorflow(ordered) or ordered
        shared = isinstance(callbacks, keras.callbacks.CallbackList)  # among several calls
        averages = averages_weights(getattr(self, "optimizer", None))
        if averages and not shared:
            put_trained_back(self)
            kwargs["callbacks"] = [*keras.tree.flatten(callbacks or []), KeepTrained()]
        with wrong_labels_told(self.num_classes), self._devices_for(x):
            history = super().fit(x, y, **kwargs)
        if averages:
            unshare(self.trainable_variables)
        if moves_on and not shared:
            pairs.start += kwargs["steps_per_epoch"] * len(history.epoch)
        return history

    def evaluate(self, x=None, y=None, *args, **kwargs):
        kwargs = by_name(super().evaluate, x, y, *args, **kwargs)
        for labels in labels_in_memory(x, y):
            check_range(labels, self.num_classes, getattr(self, "loss", None))
        if isinstance(x, Pairs):
            refuse_endless("steps", x.num_batches, kwargs.get("steps"))
        if isinstance(x, Pairs) and x.num_batches and x.by_index:
            kwargs["steps"] = kwargs.get("steps") or x.num_batches
            x = x.endless()  # an evaluation leaves `start` as it is
        with wrong_labels_told(self.num_classes), self._alone(), self._devices_for(x):
            return super().evaluate(x, y, **kwargs)

    def predict(self, x, *args, **kwargs):
        if isinstance(x, Pairs) or is_pair(x):
            raise ValueError(
                "Predictions are of one domain: `predict(inputs)`. Received: pairs of both domains"
            )
        with self._alone():
            return super().predict(x, *args, **kwargs)

    @contextlib.contextmanager
    def _alone(self):
        with each_device_alone():
            yield

    def _devices_for(self, x):
        """Prepares pairs for the devices that share each batch."""
        if isinstance(x, Pairs):
            return x.split_over(devices_of(self), replicas_of(self))
        return contextlib.nullcontext()

    def make_train_function(self, force=False):
        check_optimizer(self.optimizer, replicas_of(self))
        # A step that creates variables is traced twice, and tracing is most of the start of `fit`.
        if not (self._makes_weights() or self.optimizer.built):
            with strategy_scope(self):
                self.optimizer.build(self.trainable_variables)
        self._build_metrics()
        return super().make_train_function(force)

    def _makes_weights(self):
        """Whether the first step creates weights."""
        return not self.built or any(map(makes_weights, self._flatten_layers()))

    def _build_metrics(self):
        metrics = self._compile_metrics
        if self._labels_are_classes and metrics is not None and not metrics.built:
            outputs = keras.KerasTensor((None, self.num_classes))
            with strategy_scope(self):
                metrics.build(keras.KerasTensor((None,)), outputs)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Under a strategy, Keras takes the mean of a first batch's parts to build what is not yet
        # built, which fails where they are not of one size.
        self._build_metrics()
        if self._makes_weights() or not all(getattr(one, "built", True) for one in self.metrics):
            super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    def compile_from_config(self, config):
        # Keras requires this of a class that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def save_own_variables(self, store):
        super().save_own_variables(store)
        save_training_state(self, store)

    def load_own_variables(self, store):
        own = {key: store[key] for key in store.keys() if key.isdigit()}  # noqa: SIM118
        super().load_own_variables(own)
        load_training_state(self, store)

    def compiled_loss(self, x, y, logits, sample_weight=None, training=True) -> Any:
        """Returns the loss given to `compile`, and those of the layers, a scalar.

        As every term of a step, it is the mean over what the step sees: `compute_loss` alone
        scales for several replicas.
        """
        check_form(y, logits, self.loss)
        weights = _by_prediction(sample_weight, logits)
        loss = super().compute_loss(x, y, logits, weights, training=training)
        return whole_of_replica(loss)

    def step_losses(self, x, y, forward, sample_weight=None, training=True) -> Losses:
        """Returns what a step on a pair descends and logs; see `AdversarialModel.pair_losses`."""
        raise NotImplementedError

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if isinstance(y_pred, ForwardPass):
            losses = self.step_losses(x, y, y_pred, sample_weight, training)
            for name, arguments in losses.logged.items():
                if name in self.trackers:
                    self.trackers[name].update_state(*arguments)
            return share_of_replica(losses.total)
        if training:
            self._accept_plain_training()
        if ops.is_tensor(y_pred):
            return self.compiled_loss(x, y, y_pred, sample_weight, training)
        return super().compute_loss(x, y, y_pred, sample_weight, training=training)

    def _accept_plain_training(self):
        raise ValueError(
            f"`{type(self).__name__}` trains on pairs ({{'source': ..., 'target': ...}}, labels); "
            "`dann.data.pair` makes them. Received: inputs of one domain"
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        paired = isinstance(y_pred, ForwardPass)
        label = y_pred.label if paired else y_pred
        weights = _by_prediction(sample_weight, label)
        logs = super().compute_metrics(x, y, label, sample_weight=weights)
        if paired:
            return logs
        # The trackers did not change here, and a stale number would mislead.
        return {name: value for name, value in logs.items() if name not in self.trackers}


def _by_prediction(sample_weight, logits):
    """The sample weights of maps, one for each position; Keras broadcasts none of examples."""
    if sample_weight is None or len(getattr(logits, "shape", ())) < 3:
        return sample_weight
    return masks.of_positions(sample_weight, logits)
