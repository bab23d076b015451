import keras

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.fitting import refuse_discriminator
from dann.adaptation.forward_pass import is_pair
from dann.adaptation.regularizers.regularizer import check_regularizers


@keras.saving.register_keras_serializable("dann")
class SourceOnly(AdversarialModel):
    """The baseline: trains on the source alone.

    `fit` takes the same pairs as every method, of which it never looks at the unlabelled target, or
    plain images with labels.

    Loss: cross-entropy of the source labels.

    Args:
        backbone: Functional model from inputs to features `(batch, num_features)`.
        num_classes: Number of classes. Needed where `label_head` is not given.
        label_head: Functional model from features to logits. Defaults to
            `dann.networks.label_head`.
        passes: `"joint"` (default) or `"separate"`; it matters where there is a labelled target.
        augmentation: Layers by domain; see `AdversarialModel`. A blend is left out.

    Raises:
        ValueError: If the parts do not fit each other, or there are regularizers.
    """

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        passes="joint",
        regularizers=(),
        **kwargs,
    ):
        if regularizers:
            names = [regularizer.name for regularizer in check_regularizers(regularizers)]
            raise ValueError(
                f"`{type(self).__name__}` leaves the unlabelled target alone, which regularizers "
                f"learn from; give them to another method. Received: {names}"
            )
        refuse_discriminator(type(self), kwargs)
        super().__init__(backbone, num_classes, label_head, strength=None, passes=passes, **kwargs)

    def call(self, inputs, training=False):
        if not is_pair(inputs):
            return self.classifier(inputs, training=training)
        labelled = {name: part for name, part in inputs.items() if name != "target"}
        return self.forward(labelled, training)

    def _accept_plain_training(self):
        pass
