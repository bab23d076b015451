"""A Keras model that trains on pairs of domains: its `fit`, `compile` and files."""

import inspect
import json
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import is_pair, select_parts
from dann.adaptation.input_scale import warn_about_scale
from dann.adaptation.labels import check_labels, get_logits_loss, get_logits_metrics
from dann.adaptation.prediction import to_numpy
from dann.adaptation.replicas import (
    check_optimizer,
    count_devices,
    count_replicas,
    strategy_scope,
    use_each_device_separately,
)
from dann.adaptation.step_counter import StepCounter
from dann.data import DomainPair
from dann.data.conversion import convert_strings, frames_to_arrays
from dann.data.examples import (
    Examples,
    check_frame_columns,
    check_last_axis,
    check_matching_inputs,
    is_dataset,
    list_column_names,
)
from dann.data.pairs import Pairs
from dann.data.tensorflow_pairs import as_tensorflow_dataset

_ARGUMENTS = ("backbone", "label_head", "joint_forward", "regularizers", "task_radius")


class PairModel(keras.Model):
    """The Keras interface of `AdversarialModel`, which creates the attributes.

    Attributes:
        arguments: Names of the method's own constructor arguments, which are also attributes.
        augmentation: Augmentation layers by domain.
        classifier: The plain network from inputs to logits.
        frame_columns: Column names of the data frames of the last `fit`, which later data frames
            must have in the same order.
        is_multi_label: Whether the labels of the last `fit` were multi-label with a custom loss.
        label_head: The network from features to logits.
        logits_shape: Shape of the logits, or a dict of shapes.
        num_classes: Number of classes.
        reversal: The gradient reversal, or `None`.
    """

    arguments: Sequence[str] = ()
    augmentation: dict[str, Any]
    classifier: Any
    is_multi_label = False
    _has_checked_scale = _has_scale_warning = False
    label_head: Any
    logits_shape: Any
    num_classes: int
    reversal: Any

    @property
    def frame_columns(self) -> Sequence[str]:
        return getattr(self.classifier, "frame_columns", ())

    @frame_columns.setter
    def frame_columns(self, names: Sequence[str]):
        # Hidden from Keras, which would track the list. `predict` reads it from the classifier.
        object.__setattr__(self.classifier, "frame_columns", names)

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        loss = get_logits_loss(loss, self, self.logits_shape)
        for key in ("metrics", "weighted_metrics"):
            kwargs[key] = get_logits_metrics(kwargs.get(key), loss)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def compile_from_config(self, config):
        # Keras requires this method of a class that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(self, x=None, y=None, *args, **kwargs):
        is_tuple = isinstance(x, tuple | list) and len(self.classifier.inputs) == 1
        call = "fit(dann.data.pair((inputs, labels), target_inputs))` or `fit(domains.batches(64))"
        _check_call(call, is_tuple, x, y, *args)
        check_labels(x, y, self)
        if is_pair(x):
            _check_inputs(select_parts(x))
        elif y is not None:
            _check_inputs({"data": x})
        self._check_scale(x, kwargs.get("validation_data"))
        columns = _list_columns(x)
        if sorted(columns) == sorted(self.frame_columns):  # a later `fit` may use other columns
            self.check_columns(x)
        self.frame_columns = columns or self.frame_columns
        for data in (x, kwargs.get("validation_data")):
            self.check_columns(data)
        if not isinstance(x, Pairs):
            return super().fit(x, y, *args, **kwargs)
        if kwargs.get("sample_weight") is not None:
            raise ValueError(
                "Expected weights in the pair: `dann.data.pair((inputs, labels, weights), "
                "target_inputs)`. Received: `sample_weight`"
            )
        steps, batches = self._repeat_pairs(x, "steps_per_epoch", kwargs)
        dataset: Any = batches
        if count_devices(self) == 1:
            dataset = as_tensorflow_dataset(batches) or batches
        arguments = inspect.signature(super().fit).bind(dataset, y, *args, **kwargs).arguments
        counter = StepCounter()
        arguments["callbacks"] = [*keras.tree.flatten(arguments.get("callbacks") or []), counter]
        history = super().fit(**{"shuffle": False, **arguments, "steps_per_epoch": steps})
        if x.num_batches and x.is_indexed:
            x.start += counter.steps  # the next `fit` continues after these batches
        return history

    def evaluate(self, x=None, y=None, *args, **kwargs):
        _check_call("evaluate(inputs, labels)", isinstance(x, tuple), x, y, *args)
        check_labels(x, y, self)
        self.check_columns(x)
        with use_each_device_separately():
            if not isinstance(x, Pairs):
                return super().evaluate(convert_strings(x), y, *args, **kwargs)
            steps, batches = self._repeat_pairs(x, "steps", kwargs)
            return super().evaluate(batches, y, *args, **{**kwargs, "steps": steps})

    def predict(self, x, *args, **kwargs):
        _check_call("predict(inputs)", isinstance(x, Pairs) or is_pair(x), x, *args)
        self.check_columns(x)
        with use_each_device_separately():
            return super().predict(convert_strings(x), *args, **kwargs)

    def __call__(self, inputs, *args, **kwargs):
        self.check_columns(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def train_on_batch(self, x, *args, **kwargs):
        self.frame_columns = self.frame_columns or _list_columns(x)
        self.check_columns(x)
        if not self._has_checked_scale:  # a check of every batch would take time
            self._check_scale(x)
        arguments, kwargs = frames_to_arrays(((x, *args), kwargs))  # JAX accepts no frames
        return super().train_on_batch(*arguments, **kwargs)

    def test_on_batch(self, x, *args, **kwargs):
        self.check_columns(x)
        arguments, kwargs = frames_to_arrays(((x, *args), kwargs))
        return super().test_on_batch(*arguments, **kwargs)

    def predict_on_batch(self, x):
        self.check_columns(x)
        return super().predict_on_batch(frames_to_arrays(x))

    def check_columns(self, data: Any) -> None:
        """Checks the shape of inputs, and the columns of data frames, which must be as in `fit`.

        Args:
            data: Inputs, `(inputs, labels)` or pairs. Arrays and tensors have no column names.

        Raises:
            ValueError: If the shape or the columns differ.
        """
        inputs = data[0] if isinstance(data, tuple) else data
        if isinstance(data, Pairs):
            check_frame_columns(data, self.frame_columns)
            inputs = {name: domain.inputs for name, domain in data.domains.items()}
        parts = select_parts(inputs) if is_pair(inputs) else {"inputs": inputs}
        for name, part in parts.items():
            check_frame_columns(part, self.frame_columns)
            if len(self.classifier.inputs) == 1:
                check_last_axis(name, part, self.classifier.inputs[0].shape)

    def _check_scale(self, x, validation_data=None):
        """Warns once per model about inputs outside the range that the backbone expects.

        A dataset is read only before the first step, because each new pass can take long or draw
        random numbers.
        """
        self._has_checked_scale = True
        is_trained = self.compiled and to_numpy(self.optimizer.iterations) > 0
        for data, reads_datasets in ((x, not is_trained), (validation_data, False)):
            is_array = isinstance(data, Pairs) or not is_dataset(data)
            if not self._has_scale_warning and (is_array or reads_datasets):
                self._has_scale_warning = warn_about_scale(self.backbone, data)

    def _repeat_pairs(self, pairs, name, kwargs):
        """Returns the number of steps, rounded up like in Keras, and endless batches.

        The batches begin at `start`. Keras reads batches ahead, so a finite sequence would lose its
        position.
        """
        steps = kwargs.get(name) or pairs.num_batches
        if steps is None:
            raise ValueError(f"Expected `{name}` with endless pairs. Received: no number of steps.")
        pairs.check_devices(count_devices(self))
        num_calls = math.ceil(steps / self.steps_per_execution)
        return num_calls * self.steps_per_execution, pairs.repeat(count_replicas(self))

    def make_train_function(self, force=False):
        if getattr(self, "domain_head", None) is self.label_head:
            raise ValueError(
                "Expected `domain_head` to have its own weights. Received: the label head itself."
            )
        check_optimizer(self.optimizer, count_replicas(self))
        # TensorFlow would trace the step twice if it created the variables in the first step.
        with strategy_scope(self):
            if not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)
            is_sparse = isinstance(self.loss, keras.losses.SparseCategoricalCrossentropy)
            for metric in self.metrics if is_sparse else ():
                if not getattr(metric, "built", True):  # the container of the metrics of `compile`
                    logits = keras.KerasTensor((None, self.num_classes))
                    metric.build(keras.KerasTensor((None,)), logits)
        return super().make_train_function(force)

    def export(self, filepath, *args, **kwargs):
        # Keras exports only models that were called to ONNX, but `fit` calls the layers separately.
        self.classifier(self.classifier.input)
        # Keras would export a subclassed model with the input shapes of its first call, a pair.
        return self.classifier.export(filepath, *args, **kwargs)

    def get_config(self):
        values = {name: getattr(self, name) for name in (*_ARGUMENTS, *self.arguments)}
        values["augmentation"] = dict(self.augmentation)
        if self.reversal is not None:
            strength = self.reversal.schedule or self.reversal.initial_strength
            values |= {"strength": strength, "implementation": self.reversal.implementation}
        serialize = keras.saving.serialize_keras_object
        config = {name: serialize(value) for name, value in values.items()}
        # If the class is not registered, the error of Keras prints the config, so the entry
        # `load_after` shows how to import the package.
        return {**super().get_config(), "load_after": "import dann", **config}

    @classmethod
    def from_config(cls, config):
        values = {name: value for name, value in config.items() if name != "load_after"}
        for name, value in values.items():
            if isinstance(value, dict | list):  # Keras would read a string as a custom object
                values[name] = keras.saving.deserialize_keras_object(value)
        return cls(**values)

    def _get_random_states(self):
        """Returns the states of random generators by key; Keras does not save them."""
        weights = {id(weight) for weight in self.weights}
        states = [variable for variable in self.variables if id(variable) not in weights]
        return {f"seed_{number}": state for number, state in enumerate(states)}

    def save_own_variables(self, store):
        super().save_own_variables(store)
        for key, state in self._get_random_states().items():
            store[key] = ops.convert_to_numpy(state)
        # The key differs from the attribute, because saved files contain it.
        store["several_labels"] = np.array(self.is_multi_label)
        if self.frame_columns:
            names = json.dumps(list(self.frame_columns)).encode()
            store["frame_columns"] = np.frombuffer(names, "uint8")  # Keras saves no strings

    def load_own_variables(self, store):
        keys = set(store.keys())
        super().load_own_variables({key: store[key] for key in keys if key.isdigit()})
        if "several_labels" in keys:
            self.is_multi_label = bool(np.asarray(store["several_labels"]))
        if "frame_columns" in keys:
            self.frame_columns = json.loads(bytes(np.asarray(store["frame_columns"])))
        states = self._get_random_states()
        # A network with a different number of generators keeps its own states.
        if set(states) == {key for key in keys if key.startswith("seed_")}:
            for key, state in states.items():
                state.assign(store[key])


def _check_inputs(parts):
    """Raises a `ValueError` for arrays that contain NaN or differ in columns between the domains.

    The loss does not reveal every NaN, because `max` and ReLU can drop it.
    """
    specs = {
        name: Examples({"inputs": part}, name).input_spec()
        for name, part in parts.items()
        if not any(map(ops.is_tensor, keras.tree.flatten(part)))
    }
    for name, spec in specs.items():
        check_matching_inputs(next(iter(specs.values()))._replace(inputs=spec.inputs), spec, name)


def _list_columns(data):
    """Returns the column names of all data frames in pairs, in inputs or in `(inputs, labels)`."""
    inputs = data[0] if isinstance(data, tuple) else data
    return list_column_names(inputs["source"] if is_pair(inputs) else inputs)


def _check_call(expected_call, has_wrong_types, *arguments: Any):
    """Raises a `TypeError` for arguments in the order of scikit-learn or other packages.

    In Keras, the third positional argument is an integer or a string.
    """
    has_wrong_types = has_wrong_types or isinstance(arguments[0], DomainPair)
    third_argument = arguments[2] if len(arguments) > 2 else None
    if has_wrong_types or not isinstance(third_argument, int | str | None):
        names = ", ".join(type(argument).__name__ for argument in arguments)
        raise TypeError(f"Expected `{expected_call}`. Received: arguments of types {names}.")
