from typing import Any, Unpack

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import is_pair
from dann.adaptation.options import NetworkOptions, reject_reversal_options


@METHODS.register("source_only")
class SourceOnly(AdversarialModel):
    """The baseline without adaptation: trains on the source.

    The loss is the label loss. `fit` accepts the same pairs as every method and ignores the
    unlabeled target. It also accepts plain inputs with labels.

    With `regularizers` the model is a method without an adversary: only the regularizers use the
    target, and `fit` requires pairs.

    Args:
        backbone: Network from inputs to features, which may be maps; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        **options: Options of `AdversarialModel` except `strength`, `implementation` and
            `task_radius`. `joint_forward` applies to pairs with a labeled target.

    Raises:
        TypeError: If `options` contains `strength`, `implementation` or a `task_radius` above 0.
    """

    supports_maps = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        **options: Unpack[NetworkOptions],
    ):
        reject_reversal_options(type(self).__name__, options)
        super().__init__(backbone, num_classes, label_head, strength=None, **options)

    def call(self, inputs, training=False):
        if training and not self.regularizers and not is_pair(inputs):
            return self.run_parts({"source": inputs}, training)
        return super().call(inputs, training=training)

    def augment(self, inputs, training):
        if not self.regularizers:
            inputs = {name: part for name, part in inputs.items() if name != "target"}
        return super().augment(inputs, training)


@METHODS.register("target_only")
class TargetOnly(SourceOnly):
    """Trains on the labels of the target, as an upper bound for adaptation.

    Its accuracy estimates the best accuracy that adaptation could reach with this network; the
    literature calls it "train on target" or an oracle. It learns like `SourceOnly`, from pairs
    whose labeled part is the target, such as the batches of `dann.data.DomainPair.oracle`. The
    arguments are the same as in `SourceOnly`. Only the augmentation layers of the target are
    applied.

    Example:

    >>> import dann, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    >>> domains = dann.data.arrays((x, y), (x + 1, y))
    >>> model = dann.TargetOnly(dann.networks.mlp_backbone((2,)), num_classes=2)
    >>> model.compile("sgd", metrics=["accuracy"])
    >>> history = model.fit(domains.oracle().batches(16), steps_per_epoch=1, verbose=0)
    """

    def augmentation_layers(self):
        # The part named "source" contains labeled target examples.
        return {**self.augmentation, "source": self.augmentation.get("target")}
