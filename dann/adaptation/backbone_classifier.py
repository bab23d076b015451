from collections.abc import Callable
from typing import Any

import keras

from dann.adaptation.forward_pass import is_pair
from dann.adaptation.logit_losses import is_of_logits
from dann.adaptation.masks import run
from dann.adaptation.model_parts import (
    check_network,
    fitting_label_head,
    number_of_classes,
    refuse_probabilities,
)
from dann.adaptation.pair_classifier import PairClassifier
from dann.adaptation.plain_network import PlainNetwork
from dann.data.pairs import Pairs


class BackboneClassifier(PairClassifier):
    """A classifier of a backbone and a label head, either of which may be built at the first batch.

    Arguments and errors: see `AdversarialModel`.
    """

    takes_maps = False  # whether features may be maps `(batch, ..., num_features)`

    def __init__(self, backbone, num_classes=None, label_head=None, **kwargs):
        super().__init__(**kwargs)
        self.backbone = check_network("backbone", backbone)
        self._plain = PlainNetwork(backbone, self.takes_maps)
        self._plain.begin()
        shape = self._plain.feature_shape
        self.num_classes = number_of_classes(label_head, num_classes, shape)
        self.label_head: Any = label_head
        self.built = False
        self.when_known(self._check_inputs)
        self.when_known(self._fit_label_head)
        self.when_known(self._is_built)

    def _check_inputs(self):
        if is_pair(self.input_specs):
            raise ValueError(
                "The inputs of a backbone cannot be called 'source' and 'target', because a pair "
                f"of domains has these names. Received: inputs {sorted(self.input_specs)}"
            )

    def _fit_label_head(self):
        shape = self.feature_shape
        self.label_head = fitting_label_head(self.label_head, shape, self.num_classes)

    def _is_built(self):
        self.built = True

    @property
    def num_features(self) -> int:
        """Number of features, of maps that of each position; see also `feature_shape`."""
        return self.feature_shape[-1]

    @property
    def feature_shape(self) -> tuple[Any, ...]:
        """Shape of the features, `(None, num_features)`, of maps `(None, ..., num_features)`.

        See `when_known` for a backbone that is not built.
        """
        if self._plain.feature_shape is None:
            raise ValueError(
                "The number of features is known from the first batch on, because the backbone is "
                "not built: call `model.build(input_shape)` or `model(inputs[:1])` first. "
                f"Received: {self.backbone.name}"
            )
        return self._plain.feature_shape

    @property
    def classifier(self) -> keras.Model:
        """The backbone and the label head as a plain Keras model, which shares their weights."""
        return self._plain.classifier(self.label_head)

    @property
    def input_specs(self) -> Any:
        """Symbolic tensors like the inputs, in their structure; `None` before the first batch."""
        return self._plain.inputs

    def when_known(self, make: Callable[[], None]) -> None:
        """Calls `make()` as soon as `num_features` is known: at once, or at the first batch.

        A method makes the networks that follow the features in it.
        """
        self._plain.when_known(make)

    def build(self, input_shape):
        """Makes the weights for plain inputs of a shape, or shapes in the structure of the inputs.

        The inputs are taken for floats; call `model(inputs[:1])` for others.
        """
        if self.built:
            return
        shapes = input_shape["source"] if is_pair(input_shape) else input_shape
        if not isinstance(shapes, dict | list | tuple):
            raise TypeError(
                "Argument `input_shape` must be a shape, such as (None, 28, 28, 3), or shapes in "
                f"the structure of the inputs. Received: {input_shape!r}"
            )
        specs = keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor((None, *shape[1:]), keras.config.floatx()), shapes
        )
        self._plain.see(specs)

    def __call__(self, inputs, *args, **kwargs):
        known = self.input_specs
        if isinstance(known, keras.KerasTensor) and _are_several(inputs):
            raise _not_one_input(inputs)
        try:
            self._plain.see(inputs["source"] if is_pair(inputs) else inputs)
        except Exception as error:
            if known is None and _are_several(inputs):
                raise _not_one_input(inputs) from error
            raise
        return super().__call__(inputs, *args, **kwargs)

    def fit(self, x=None, *args, **kwargs):
        if not self.built:  # here, because some layers cannot be copied within a trace
            inputs = x[0][0] if isinstance(x, Pairs) else x
            if is_pair(inputs) and all(map(_has_shape, keras.tree.flatten(inputs["source"]))):
                self._plain.see(keras.tree.map_structure(lambda one: one[:1], inputs["source"]))
        return super().fit(x, *args, **kwargs)

    def make_train_function(self, force=False):
        if is_of_logits(self.loss) and self.built:
            refuse_probabilities("label_head", self.label_head, self.feature_shape)
        return super().make_train_function(force)

    def get_build_config(self):
        return self._plain.get_config() or super().get_build_config()

    def build_from_config(self, config):
        if "dtypes" in config:
            self._plain.see_config(config)
        else:
            super().build_from_config(config)

    def classified(self, inputs: Any, training: bool) -> Any:
        """Returns the logits of plain inputs, as `classifier` gives them."""
        return run(self.label_head, self.backbone(inputs, training=training), training)

    def export(self, filepath, *args, **kwargs):
        # Keras asks a subclassed model for the shapes of its first call, which was on a pair.
        return self.classifier.export(filepath, *args, **kwargs)

    def get_config(self):
        parts = {"backbone": self.backbone, "label_head": self.label_head}
        config = {k: keras.saving.serialize_keras_object(v) for k, v in parts.items()}
        # A label head that is built later needs the number, too.
        late = not self.built
        return super().get_config() | config | ({"num_classes": self.num_classes} if late else {})


def _are_several(inputs):
    """Whether inputs come as a sequence, such as both domains in a tuple."""
    return isinstance(inputs, tuple | list) and len(inputs) > 1 and all(map(_has_shape, inputs))


def _not_one_input(inputs):
    return ValueError(
        "The backbone takes one input. Both domains come as a pair, ({'source': ..., 'target': "
        "...}, labels), which `dann.data.pair(source, target)` makes. Received: a "
        f"{type(inputs).__name__} of {len(inputs)} inputs"
    )


def _has_shape(values):
    return hasattr(values, "shape") and len(values.shape) > 0
