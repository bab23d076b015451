from dann.adaptation.adversarial_model import METHODS, AdversarialModel


@METHODS.register("source_only")
class SourceOnly(AdversarialModel):
    """The baseline: trains on the source alone.

    `fit` takes the same pairs as every method and ignores the unlabelled target; it also takes
    plain images with labels. The loss is the label loss.

    With `regularizers` it is the method without an adversary: the target trains those alone, and
    `fit` needs pairs.

    Args:
        joint_forward: As in `AdversarialModel`; it matters if there is a labelled target.

    The other arguments are those of `AdversarialModel`, without those of a reversal.
    """

    supports_maps = True
    trains_on_plain_inputs = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, strength=None, **kwargs)

    def augment(self, inputs, training):
        used = {k: part for k, part in inputs.items() if k != "target" or self.regularizers}
        return super().augment(used, training)


@METHODS.register("target_only")
class TargetOnly(SourceOnly):
    """An oracle, not a method: trains on the labels of the target.

    It shows what adaptation could reach at most with this network; the literature calls it "train
    on target". It learns like `SourceOnly`, from pairs whose labelled part is the target:
    `dann.data.DomainPair.oracle().batches(...)` gives them, and `dann.training.train_run` uses them.

    The arguments are those of `SourceOnly`; of the augmentation it uses the target's.
    """

    oracle = True
