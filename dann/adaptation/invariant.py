from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.batch import is_pair
from dann.adaptation.labels import MULTI_LABEL_LOSSES, ONE_HOT_LOSSES
from dann.adaptation.networks import make_domain_head
from dann.adaptation.nuisance import (
    Nuisance,
    apply_sample_weights,
    class_sample_weights,
    convert_values,
    flatten,
    normalize_mask,
    split_missing,
)
from dann.adaptation.options import ReversalOptions
from dann.checks import check_integer
from dann.data.nuisances import NUMBER
from dann.data.pairs import Pairs
from dann.layers import GradientReversal
from dann.layers.state import add_state
from dann.networks import label_head as build_label_head
from dann.schedules import StrengthSchedule

_CLASS_LOSSES = keras.losses.SparseCategoricalCrossentropy, *ONE_HOT_LOSSES, *MULTI_LABEL_LOSSES


@keras.saving.register_keras_serializable("dann")
class Invariant(AdversarialModel):
    """A classifier whose features hide nuisances, such as the speaker, the batch or the age.

    `fit` accepts inputs and a dict of labels, `fit(x, {"label": y, "speaker": s, "age": a})`, or a
    dataset or `PyDataset` of such batches, but no pairs. Missing values are -1 for a class and NaN
    for any value; an example with a missing value is excluded only from the loss of this value. The
    rows of an unlabeled target are therefore rows without a label. `evaluate` also accepts `y`
    alone, and returns the loss and the metrics of the labels.

    A `label_head` may return a dict of outputs. The labels then contain an entry for each output,
    in addition to the nuisances: `fit(x, {"digit": d, "size": z, "speaker": s})`. `compile` accepts
    dicts of losses, metrics and `loss_weights`, as in Keras.

    With features `f`, label head `c` and a head `h_n` after the reversal for each nuisance `n`,

    - `L = mean CE(c(f(x)), y)`, or the loss of `compile`
    - `D_n = mean w_n CE(h_n(f(x)), n)` for `K` values
    - `D_n = mean w_n (h_n(f(x)) - z)^2` for a number, `z = (n - mean) / std`

    each over the examples without missing values, each step minimizes `L` for `c`, `D_n` for `h_n`,
    and `L - sum_n strength_n D_n` for `f`. `w_n` are the sample weights of `n`, or 1. For a
    `balanced` nuisance they are multiplied by `N / (K N_k)`, with `N_k` examples of the value, `N`
    examples in total, and `K` values that occurred. The counts, the mean and the standard deviation
    `std` cover all training batches so far and are saved with the model.

    With `condition_on_label` the heads receive the outer product of `[features, 1]` and the one-hot
    label, flattened to `(num_features + 1) * num_classes` values. The heads then learn how the
    features depend on a nuisance given the label, and `f` and the nuisance become independent
    within each class (equalized odds). `D_n` then also excludes examples without a label.

    In training, the logs also contain `speaker/loss` for a nuisance `speaker` and, if it has `K`
    values, `speaker/accuracy` and `speaker/chance`, the accuracy of always predicting the most
    frequent value. Accuracy and chance use the weights of the loss. For a number, the loss at
    chance is 1. A head may be at chance because it fails to learn; `dann.diagnostics.leakage`
    measures how much information about a nuisance the features still contain.

    Metrics ignore examples without a label. Regularizers treat all examples as target examples.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits, or to a dict of logits; see `AdversarialModel`.
        nuisances: Kind of each nuisance by name: the number of values, at least 2, or `"number"`.
        strength: Strength of the reversal (see `AdversarialModel`), or a dict with the strength of
            each nuisance; `model.reversals["speaker"].strength` can be set. Defaults to `1.0`.
        heads: Keras models or layers by nuisance, from features (with `condition_on_label`, from
            `(num_features + 1) * num_classes` products) to `K` logits or one number. Defaults to
            one hidden layer of 100 units.
        condition_on_label: Whether the heads also receive the label. Defaults to `False`.
        balanced: Name or names of categorical nuisances for which rare values count as much as
            frequent values. Defaults to none.
        **options: The other options of `AdversarialModel`; `joint_forward` has no effect.

    Raises:
        ValueError: If there is no nuisance, if a nuisance has the name of a label, if `strength`,
            `heads` or `balanced` name anything but nuisances, or if `condition_on_label` is set for
            a label without classes.

    Example:

    >>> import dann
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> model = dann.Invariant(backbone, 3, nuisances={"speaker": 40, "age": "number"})
    >>> model.heads["speaker"].output_shape
    (None, 40)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 9 to 18, for one
          nuisance with two values.
        - [Zhang et al., 2018](https://arxiv.org/abs/1801.07593), section 3, for
          `condition_on_label`; the adversary there receives the prediction instead of the features.
    """

    arguments = ("nuisances", "heads", "condition_on_label", "balanced")

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        nuisances: Mapping[str, int | str],
        strength: float | StrengthSchedule | Mapping[str, Any] = 1.0,
        heads: Mapping[str, Any] | None = None,
        condition_on_label: bool = False,
        balanced: str | Sequence[str] = (),
        **options: Unpack[ReversalOptions],
    ):
        if not isinstance(nuisances, Mapping):
            raise TypeError(
                "Expected `nuisances` to be a dict with the kind of each nuisance, such as "
                f"{{'sex': 2, 'age': 'number'}}. Received: nuisances={nuisances!r}."
            )
        strengths = dict(strength) if isinstance(strength, Mapping) else {}
        shared_strength: Any = None if strengths else strength
        super().__init__(backbone, num_classes, label_head, strength=shared_strength, **options)
        self._strengths = strengths
        self.nuisances = dict(nuisances)
        for name, kind in nuisances.items():
            if not isinstance(kind, str) or kind != NUMBER:
                hint = "or 'number'"
                self.nuisances[name] = check_integer(f"nuisances[{name!r}]", kind, 2, hint=hint)
        self.condition_on_label = condition_on_label
        self.balanced = [balanced] if isinstance(balanced, str) else list(balanced)
        categorical_nuisances = {name for name, kind in nuisances.items() if kind != NUMBER}
        _check_names("strength", strengths or nuisances, {*nuisances}, require_all=True)
        _check_names("heads", heads or {}, {*nuisances})
        _check_names("balanced", self.balanced, categorical_nuisances)
        shape = self.logits_shape
        self.label_shapes = shape if isinstance(shape, dict) else {"label": shape}
        has_common_name = bool({*nuisances} & {*self.label_shapes})
        if not nuisances or has_common_name or (condition_on_label and self.num_classes == 1):
            raise ValueError(
                "Expected at least one nuisance, no nuisance with the name of a label, and classes "
                f"if `condition_on_label` is set. Received: nuisances={dict(nuisances)} and label "
                f"outputs {self.label_shapes}."
            )
        implementation = options.get("implementation", "override")
        self.reversals = {
            name: GradientReversal(value, implementation, name=f"{name}_reversal")
            for name, value in strengths.items()
        }
        length = self.feature_shape[-1]
        length = (length + 1) * self.num_classes if condition_on_label else length
        self.heads, self.nuisance_terms = {}, []
        for name, kind in self.nuisances.items():
            outputs: Any = 1 if kind == NUMBER else kind
            head, head_name = (heads or {}).get(name), f"{name}_head"
            if head is None and outputs > 1:
                head = build_label_head(length, outputs, (100,), name=head_name)
            self.heads[name] = make_domain_head(head, (None, length), (outputs,), head_name)
            # Torch clears the gradients only of layers that are attributes.
            setattr(self, f"head_of_{name}", self.heads[name])
            size = 3 if kind == NUMBER else outputs
            statistics = add_state(self, f"{name}_seen", "float32", 0.0, (size,))
            reversal, is_balanced = self.reversals.get(name), name in self.balanced
            self.nuisance_terms.append(
                Nuisance(name, kind, self.heads[name], statistics, reversal, is_balanced)
            )
        terms = [f"{name}/loss" for name in nuisances]
        for name in categorical_nuisances:
            terms += [f"{name}/accuracy", f"{name}/chance"]
        self.trackers.update({term: keras.metrics.Mean(term) for term in sorted(terms)})

    def call(self, inputs, training=False):
        if training:
            return self.run_parts({"source": inputs}, training)
        return super().call(inputs, training=False)

    def method_losses(self, batch, reversal, training):
        self._check_names(batch.labels)
        terms, source, reversed_features = {}, batch.features["source"], None
        if reversal is not None:
            # Called once for all nuisances, because the reversal counts the steps of its schedule.
            reversed_features = reversal(source, training=training)
        for nuisance in self.nuisance_terms:
            if nuisance.reversal is not None:
                reversed_features = nuisance.reversal(source, training=training)
            terms |= nuisance.losses(self, batch, reversed_features, training)
        return terms

    def _check_names(self, labels):
        """Raises a `ValueError` unless labels are a dict with all labels and nuisances."""
        names = sorted({*self.label_shapes, *self.nuisances})
        if not isinstance(labels, dict) or not set(names) <= set(labels):
            received = sorted(labels) if isinstance(labels, dict) else type(labels).__name__
            raise ValueError(
                f"Expected a dict of labels with the keys {names}. Received: {received}. Write "
                f"`fit(inputs, {{{names[0]!r}: values, ...}})`."
            )

    def join_label(self, features: Any, labels: Mapping[str, Any]) -> tuple[Any, Any]:
        """Returns the outer product of `[features, 1]` and the one-hot label, and the label's mask.

        Args:
            features: Tensor `(batch, num_features)`.
            labels: Labels by name.

        Returns:
            Tensor `(batch, (num_features + 1) * num_classes)` and a mask `(batch,)`, which is 0 for
            examples without a label.
        """
        label, mask = self._split_label(labels, "label")
        if len(label.shape) < 2 or label.shape[-1] != self.num_classes:
            label = ops.one_hot(ops.cast(flatten(label), "int32"), self.num_classes)
        features = ops.concatenate([features, ops.ones_like(features[:, :1])], axis=-1)
        # (batch, num_features + 1, 1) * (batch, 1, num_classes)
        products = features[:, :, None] * ops.cast(label, features.dtype)[:, None]
        return ops.reshape(products, (-1, features.shape[-1] * self.num_classes)), mask

    def _split_label(self, labels, name):
        """Returns a label with 0 for missing values, and a mask of the examples that have it."""
        return split_missing(labels[name], isinstance(self._get_loss(name), _CLASS_LOSSES))

    def _get_loss(self, name):
        return self.loss[name] if isinstance(self.loss, dict) else self.loss

    def prepare_labels(self, labels, weights, for_loss):
        labels = labels if isinstance(labels, dict) else {"label": labels}
        prepared_labels, prepared_weights = {}, {}
        for name in self.label_shapes:
            prepared_labels[name], mask = self._split_label(labels, name)
            mask = normalize_mask(mask) if for_loss else mask
            prepared_weights[name] = apply_sample_weights(mask, weights, name)
        if isinstance(self.loss, dict):
            return prepared_labels, prepared_weights
        return prepared_labels["label"], prepared_weights["label"]

    def compile(
        self, optimizer="rmsprop", loss=None, metrics=None, weighted_metrics=None, **kwargs
    ):
        # All metrics are weighted, because missing labels have weight 0.
        joined = {}
        for metrics_by_name in filter(None, (metrics, weighted_metrics)):
            if not isinstance(metrics_by_name, dict):
                metrics_by_name = {"label": metrics_by_name}
            for name, metric in metrics_by_name.items():
                joined.setdefault(name, []).extend(keras.tree.flatten(metric))
        super().compile(optimizer, loss, weighted_metrics=joined, **kwargs)

    def fit(self, x=None, y=None, *args, class_weight=None, **kwargs):
        if is_pair(x) or (isinstance(x, Pairs) and "target" in x.domains):
            raise ValueError(
                "Expected inputs and a dict of labels. Received: pairs of source and target. Write "
                "`fit(inputs, {'label': labels, 'domain': domains})`, with -1 for each label of "
                "the target and `nuisances={'domain': 2}`."
            )
        if y is not None:
            self._check_names(y)
            y = self._convert_values(y)
        if class_weight is not None and kwargs.get("sample_weight") is None:
            kwargs["sample_weight"] = class_sample_weights(y, class_weight)
            class_weight = None
        return super().fit(x, y, *args, class_weight=class_weight, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        return super().evaluate(x, self._convert_values(y), *args, **kwargs)

    def _convert_values(self, y):
        """Returns labels and nuisances as arrays, after a check of their values."""
        sparse = keras.losses.SparseCategoricalCrossentropy
        kinds = dict(self.nuisances)
        for name, shape in self.label_shapes.items():
            kinds[name] = shape[-1] if isinstance(self._get_loss(name), sparse) else NUMBER
        return convert_values(y, kinds)

    def get_config(self):
        config = super().get_config()
        if self._strengths:
            config["strength"] = keras.saving.serialize_keras_object(self._strengths)
        return config

    def _get_reversal(self):
        if self.reversals:
            raise AttributeError(
                "`Invariant` has a `strength` for each nuisance. Use "
                f"`model.reversals[{next(iter(self.reversals))!r}].strength`."
            )
        return super()._get_reversal()


def _check_names(argument, names, expected, require_all=False):
    """Raises a `ValueError` for unexpected names or, with `require_all`, for missing names."""
    if not set(names) <= expected or (require_all and set(names) != expected):
        raise ValueError(
            f"Expected `{argument}` to name nuisances of {sorted(expected)}. Received: "
            f"{sorted(names)}."
        )
