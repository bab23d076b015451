from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.batch import Batch, at_least_single
from dann.adaptation.labels import SHARES, SIGMOIDS
from dann.adaptation.missing_labels import (
    check_ranges,
    filled,
    flat,
    over_known,
    weighted,
    weights_of_classes,
)
from dann.adaptation.networks import fitting_domain_head
from dann.adaptation.nuisance_terms import class_terms, number_terms
from dann.checks import check_integer
from dann.data.nuisances import NUMBER
from dann.layers import GradientReversal
from dann.layers.state import add_state
from dann.networks import label_head
from dann.schedules import StrengthSchedule

_OF_CLASSES = keras.losses.SparseCategoricalCrossentropy, *SHARES, *SIGMOIDS


@keras.saving.register_keras_serializable("dann")
class Invariant(AdversarialModel):
    """A classifier whose features hide nuisances, such as the speaker, the batch or the age.

    `fit` takes no pairs: it takes inputs and labels by name, `fit(x, {"label": y, "speaker": s,
    "age": a})`, or a dataset or `PyDataset` of such batches. What is missing is left out of its own
    loss alone: -1 for a class, NaN for any value. So an unlabelled target is the rows whose label
    is missing. `evaluate` takes `y` alone, too, and gives loss and metrics of the labels.

    A `label_head` that gives a dict of outputs has a label for each, beside the nuisances:
    `fit(x, {"digit": d, "size": z, "speaker": s})`. `compile` takes the losses by name, and metrics
    and `loss_weights` too, as Keras does.

    With features `f`, label head `c` and a head `h_n` behind the reversal for each nuisance `n`,

    - `L = mean CE(c(f(x)), y)`, or the loss given to `compile`
    - `D_n = mean w_n CE(h_n(f(x)), n)` for `K` values
    - `D_n = mean w_n (h_n(f(x)) - z)^2` for a number, `z = (n - mean) / deviation`

    each over the examples whose values are known, one step descends `L` for `c`, `D_n` for `h_n`,
    and `L - sum_n strength_n D_n` for `f`. `w_n` are the sample weights of `n`, or 1; with
    `balanced` they are multiplied by `N / (K N_k)`, with `N_k` the examples of the value, `N` those
    of all values, and `K` the values met. The counts, the mean and the deviation are those of all
    batches of the training so far; they are saved with the model.

    With `condition_on_label` the heads see every product of a feature, or 1, and the one-hot label, and
    so learn what the features tell of a nuisance beside the label: `f` and the nuisance become
    independent within each class (equalized odds). `D_n` is then also without missing labels.

    In training the logs also hold for each nuisance `speaker/loss`, for `K` values
    `speaker/accuracy` and `speaker/chance`, the accuracy of the most frequent value, both weighted
    as the loss. A number is at chance at the loss 1. For what is left in the features use
    `dann.diagnostics.leakage`; a head may be at chance because it lost.

    Metrics are weighted by the label's sample weights, because missing labels have weight 0.
    Regularizers take all examples for the target.

    Args:
        nuisances: By name the number of values, at least 2, or `"number"`.
        strength: As in `AdversarialModel`, but defaults to `1.0`; or a dict of one for each
            nuisance, which `model.reversals["speaker"].strength` then tells and sets.
        heads: Keras models or layers by nuisance, from features (with `condition_on_label` from
            `(num_features + 1) * num_classes` products) to `K` logits or one number. Defaults to
            one hidden layer of 100 units.
        condition_on_label: Whether the heads also see the label. Defaults to `False`.
        balanced: A nuisance of classes, or several, whose rare values count as much as the others.
            Defaults to none.

    The other arguments are those of `AdversarialModel`, without maps and `passes`.

    Raises:
        ValueError: If the nuisances are none, are called `"label"`, or their strengths, heads or
            balance belong to others; if `condition_on_label` has no classes.

    Example:

    >>> import dann
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> model = dann.Invariant(backbone, 3, nuisances={"speaker": 40, "age": "number"})
    >>> model.heads["speaker"].output_shape
    (None, 40)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 9 to 18, for one
          nuisance of two values.
        - [Zhang et al., 2018](https://arxiv.org/abs/1801.07593), section 3, for `condition_on_label`, in
          which the adversary sees the prediction in place of the features.
    """

    arguments = ("nuisances", "heads", "condition_on_label", "balanced")
    trains_on_plain_inputs = True

    def __init__(
        self,
        *args,
        nuisances: Mapping[str, int | str],
        strength: float | StrengthSchedule | Mapping[str, Any] = 1.0,
        heads: Mapping[str, Any] | None = None,
        condition_on_label: bool = False,
        balanced: str | Sequence[str] = (),
        **kwargs,
    ):
        strengths = strength if isinstance(strength, Mapping) else {}
        super().__init__(*args, strength=None if strengths else strength, **kwargs)  # pyright: ignore
        self.nuisances = {name: _kind(name, kind) for name, kind in nuisances.items()}
        self.condition_on_label = condition_on_label
        self.balanced = [balanced] if isinstance(balanced, str) else list(balanced)
        classes = {name for name, kind in nuisances.items() if kind != NUMBER}
        _check_names("strength", strengths or nuisances, {*nuisances}, whole=True)
        _check_names("heads", heads or {}, {*nuisances})
        _check_names("balanced", self.balanced, classes)
        shape = self.logits_shape
        self.label_shapes = shape if isinstance(shape, dict) else {"label": shape}
        named_alike = set(nuisances) & set(self.label_shapes)
        if not nuisances or named_alike or (condition_on_label and self.num_classes == 1):
            raise ValueError(
                "There must be a nuisance, none called as a label, and with `condition_on_label` classes. "
                f"Received: nuisances={dict(nuisances)} and label outputs {self.label_shapes}"
            )
        implementation = kwargs.get("implementation", "override")
        self.reversals = {
            name: GradientReversal(one, implementation, name=f"{name}_reversal")
            for name, one in strengths.items()
        }
        length = self.feature_shape[-1]
        length = (length + 1) * self.num_classes if condition_on_label else length
        self.heads, self.seen = {}, {}
        for name, kind in self.nuisances.items():
            self.heads[name] = _head(name, kind, length, (heads or {}).get(name))
            # Torch clears the gradients of attributes; of a dict, one for each name of a variable.
            setattr(self, f"head_of_{name}", self.heads[name])
            # Of K values their counts; of a number the count, the mean and the squares about it.
            size: Any = 3 if kind == NUMBER else kind
            self.seen[name] = add_state(self, f"{name}_seen", "float32", 0.0, (size,))
        terms = [f"{name}/loss" for name in nuisances]
        terms += [f"{name}/{term}" for name in classes for term in ("accuracy", "chance")]
        for term in sorted(terms):
            self.trackers[term] = keras.metrics.Mean(term)

    def call(self, inputs, training=False):
        return super().call(_pair(inputs) if training else inputs, training=training)

    def augment(self, inputs, training):
        return super().augment({"source": inputs["source"]}, training)

    def make_batch(self, inputs, features, training):
        # All examples are the source, and once more the target, at which regularizers look.
        parts = super().make_batch(inputs, features, training)[:3]
        return Batch(*(_pair(part["source"]) for part in parts))

    def loss_terms(self, x, labels, batch, reversal=None, training=True):
        wanted = {*self.label_shapes, *self.nuisances}
        if not isinstance(labels, dict) or not wanted <= set(labels):
            raise ValueError(
                f"Train on labels by name, a dict with {sorted(wanted)}. Received: "
                f"{sorted(labels) if isinstance(labels, dict) else type(labels).__name__}"
            )
        return super().loss_terms(_pair(x), labels, batch, reversal, training)

    def method_losses(self, batch, labels, reversal, training):
        features = batch.features["source"]
        shared = reversal and reversal(features, training=training)
        terms = {}
        for name, kind in self.nuisances.items():
            own = self.reversals.get(name)
            inputs = own(features, training=training) if own else shared
            values, known = filled(labels[name], kind != NUMBER)
            if self.condition_on_label:
                label, label_known = self._label(labels, "label")
                inputs, known = self._with_label(inputs, label), known * label_known
            outputs = at_least_single(self.heads[name](inputs, training=training))
            weights = weighted(over_known(known), batch.weights, name)
            given = self.seen[name], ops.reshape(values, (-1,)), known, weights, outputs
            balanced = name in self.balanced
            found, seen = number_terms(*given) if kind == NUMBER else class_terms(*given, balanced)
            if training:
                self.seen[name].assign(seen)
            terms |= {f"{name}/{term}": value for term, value in found.items()}
        return terms

    def _with_label(self, features, label):
        """Every product of a feature, or 1, and the one-hot label."""
        if len(label.shape) < 2 or label.shape[-1] != self.num_classes:
            label = ops.one_hot(ops.cast(flat(label), "int32"), self.num_classes)
        ones = ops.ones_like(features[:, :1])
        features = ops.concatenate([features, ones], axis=-1)
        products = features[:, :, None] * ops.cast(label, features.dtype)[:, None]
        return ops.reshape(products, (-1, features.shape[-1] * self.num_classes))

    def _loss_of(self, name):
        return self.loss[name] if isinstance(self.loss, dict) else self.loss

    def _label(self, y, name):
        """A label, 0 in place of missing ones, and 1 for each example that has one, else 0."""
        return filled(y[name], isinstance(self._loss_of(name), _OF_CLASSES))

    def _weighted(self, y, weights, scaled=False):
        """The labels and their weights, 0 where one is missing, in the structure of the logits."""
        y = y if isinstance(y, dict) else {"label": y}
        labels, weights_of = {}, {}
        for name in self.label_shapes:
            labels[name], known = self._label(y, name)
            weights_of[name] = weighted(over_known(known) if scaled else known, weights, name)
        both = labels, weights_of
        return both if isinstance(self.loss, dict) else [one["label"] for one in both]

    def label_loss(self, labels, logits, weights=None):
        labels, weights = self._weighted(labels, weights, scaled=True)
        return super().label_loss(labels, logits, weights)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        labels, weights = self._weighted(y, sample_weight)
        return super().compute_metrics(x, labels, y_pred, weights)

    def compile(
        self, optimizer="rmsprop", loss=None, metrics=None, weighted_metrics=None, **kwargs
    ):
        together = {}
        for given in filter(None, (metrics, weighted_metrics)):
            for name, some in (given if isinstance(given, dict) else {"label": given}).items():
                together.setdefault(name, []).extend(keras.tree.flatten(some))
        super().compile(optimizer, loss, weighted_metrics=together, **kwargs)

    def fit(self, x=None, y=None, *args, class_weight=None, **kwargs):
        if isinstance(y, dict):
            sparse = keras.losses.SparseCategoricalCrossentropy
            shapes = self.label_shapes.items()
            sizes = {n: s[-1] for n, s in shapes if isinstance(self._loss_of(n), sparse)}
            check_ranges(y, {**sizes, **self.nuisances})
            if class_weight is not None and kwargs.get("sample_weight") is None and "label" in y:
                kwargs["sample_weight"] = weights_of_classes(y, class_weight)
                class_weight = None
        return super().fit(x, y, *args, class_weight=class_weight, **kwargs)

    def get_config(self):
        strengths = {n: one.schedule or one.initial_strength for n, one in self.reversals.items()}
        own = keras.saving.serialize_keras_object(strengths)
        return {**super().get_config(), **({"strength": own} if strengths else {})}


def _kind(name, kind):
    argument = f"nuisances[{name!r}]"
    return kind if kind == NUMBER else check_integer(argument, kind, low=2, why="or 'number'")


def _pair(tensors):
    return {"source": tensors, "target": tensors}


def _head(name, kind, length, head):
    outputs = 1 if kind == NUMBER else kind
    if head is None and outputs > 1:
        head = label_head(length, outputs, (100,), name=f"{name}_head")
    return fitting_domain_head(head, (None, length), (outputs,), f"{name}_head")


def _check_names(argument, names, allowed, whole=False):
    """Raises a `ValueError` for names that are not allowed, or with `whole` if one is left out."""
    if not set(names) <= allowed or (whole and set(names) != allowed):
        raise ValueError(
            f"Argument `{argument}` must name {sorted(allowed)}. Received: {sorted(names)}"
        )
