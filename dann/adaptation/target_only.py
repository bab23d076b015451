import keras

from dann.adaptation.source_only import SourceOnly


@keras.saving.register_keras_serializable("dann")
class TargetOnly(SourceOnly):
    """An oracle, not a method: trains on the labels of the target.

    What adaptation could reach at most with this network, the "train on target" of the literature.
    It learns like `SourceOnly`, from pairs whose labelled part is the target; a
    `dann.data.DomainPair` gives them as `oracle().batches(...)`, and `dann.training.Run` takes
    those for it.

    Args:
        backbone: Functional model from inputs to features `(batch, num_features)`.
        num_classes: Number of classes. Needed where `label_head` is not given.
        label_head: Functional model from features to logits. Defaults to
            `dann.networks.label_head`.
        passes: `"joint"` (default) or `"separate"`.
        augmentation: Layers by domain, of which the target's are used; see `AdversarialModel`.
    """

    oracle = True
