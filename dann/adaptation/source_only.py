import keras

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.methods import METHODS
from dann.adaptation.regularizers.regularizer import check_regularizers


@METHODS.register("source_only")
@keras.saving.register_keras_serializable("dann")
class SourceOnly(AdversarialModel):
    """The baseline: trains on the source alone.

    `fit` takes the same pairs as every method and ignores the unlabelled target; it also takes
    plain images with labels. The loss is the label loss.

    Args:
        passes: As in `AdversarialModel`; it matters if there is a labelled target.

    The other arguments are those of `AdversarialModel`, without those of a reversal.

    Raises:
        ValueError: If there are regularizers.
    """

    supports_maps = True
    trains_on_plain_inputs = True

    def __init__(self, backbone, num_classes=None, label_head=None, *, regularizers=(), **kwargs):
        if regularizers:
            names = [regularizer.name for regularizer in check_regularizers(regularizers)]
            raise ValueError(
                f"`{type(self).__name__}` ignores the unlabelled target, which regularizers learn "
                "from; leave them out (in a script by `regularizer=none`) or take another method. "
                f"Received: {names}"
            )
        super().__init__(backbone, num_classes, label_head, strength=None, **kwargs)

    def augment(self, inputs, training):
        labelled = {name: part for name, part in inputs.items() if name != "target"}
        return super().augment(labelled, training)


@METHODS.register("target_only")
@keras.saving.register_keras_serializable("dann")
class TargetOnly(SourceOnly):
    """An oracle, not a method: trains on the labels of the target.

    It shows what adaptation could reach at most with this network; the literature calls it "train
    on target". It learns like `SourceOnly`, from pairs whose labelled part is the target:
    `dann.data.DomainPair.oracle().batches(...)` gives them, and `dann.training.Run` takes them.

    The arguments are those of `SourceOnly`; of the augmentation it uses the target's.
    """

    oracle = True
