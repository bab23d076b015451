"""Heads that learn faster than the backbone."""

from collections.abc import Sequence

import keras

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.ranges import check_range
from dann.schedules import Scaled


def faster_heads(
    model: AdversarialModel, optimizer: keras.optimizers.Optimizer, factor: float = 10.0
) -> "FasterHeads":
    """Returns an optimizer under which all but the backbone learns at a higher rate.

    For fine-tuning: the backbone's weights are good already, those of the heads random. Variables
    of `model.backbone` learn at the optimizer's learning rate or schedule, all others (label head,
    discriminator, ...) at `factor` times it. Else nothing changes, but that `global_clipnorm`
    limits the norm of each of the two parts by itself.

    Freeze and thaw layers first: it is made for the variables that train now.

    Args:
        model: Model to compile with what this returns.
        optimizer: Any single Keras optimizer. It serves as a pattern and is not changed; what it
            has gathered so far is not taken over.
        factor: Learning rate of the heads in multiples of the backbone's, above 0. Defaults to
            `10.0`, the usual choice.

    Raises:
        TypeError: If the optimizer is itself made of others.
        ValueError: If `factor` is not above 0.

    Example:

    >>> import dann, keras
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> optimizer = dann.adaptation.faster_heads(model, keras.optimizers.SGD(0.01, momentum=0.9))
    >>> model.compile(optimizer, metrics=["accuracy"])

    Reference:
        - [Long et al., 2015](https://arxiv.org/abs/1502.02791), section 4.1.
    """
    factor = check_range("factor", factor, above=True)
    composed = (keras.optimizers.MultiOptimizer, keras.optimizers.LossScaleOptimizer)
    if isinstance(optimizer, composed):
        raise TypeError(
            "Argument `optimizer` must be a single optimizer; `compile` wraps what this returns "
            f"where the precision needs it. Received: {type(optimizer).__name__}"
        )
    backbone = {id(variable) for variable in model.backbone.trainable_variables}
    return FasterHeads(
        backbone=_copy(optimizer, "backbone", 1.0),
        heads=_copy(optimizer, "heads", factor),
        of_backbone=[id(variable) in backbone for variable in model.trainable_variables],
        loss_scale_factor=optimizer.loss_scale_factor,
    )


@keras.saving.register_keras_serializable("dann")
class FasterHeads(keras.optimizers.MultiOptimizer):
    """One optimizer for the backbone and one for the rest; `faster_heads` makes it.

    The variables are known by their place among the model's trainable variables, not by their
    paths, as in Keras' `OptimizerMap`: nested layers have others in a model that comes from a file.

    Args:
        backbone: Optimizer of the backbone's variables.
        heads: Optimizer of all other variables.
        of_backbone: Of each trainable variable, in order, whether it is the backbone's.
        loss_scale_factor: Factor of the loss in both; see Keras' optimizers.
        name: Name of the optimizer.

    Raises:
        ValueError: If another number of variables trains than it was made for.
    """

    def __init__(
        self,
        backbone: keras.optimizers.Optimizer,
        heads: keras.optimizers.Optimizer,
        of_backbone: Sequence[bool],
        loss_scale_factor: float | None = None,
        name: str = "faster_heads",
    ):
        super().__init__(self._optimizer_of, loss_scale_factor=loss_scale_factor, name=name)
        self.backbone = backbone
        self.heads = heads
        self.of_backbone = list(of_backbone)
        self._backbone_variables = frozenset()

    def _optimizer_of(self, variable):
        return self.backbone if id(variable) in self._backbone_variables else self.heads

    def build(self, var_list):
        if len(var_list) != len(self.of_backbone):
            raise ValueError(
                "Layers were frozen or thawed since `faster_heads` made the optimizer; make a new "
                f"one. Received: {len(var_list)} trainable variables instead of "
                f"{len(self.of_backbone)}"
            )
        pairs = zip(var_list, self.of_backbone, strict=True)
        self._backbone_variables = frozenset(id(variable) for variable, its in pairs if its)
        super().build(var_list)

    def get_config(self):
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "heads": keras.saving.serialize_keras_object(self.heads),
            "of_backbone": list(self.of_backbone),
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        optimizers = {
            key: keras.saving.deserialize_keras_object(config[key], custom_objects=custom_objects)
            for key in ("backbone", "heads")
        }
        return cls(**{**config, **optimizers})


def _copy(optimizer, name, factor):
    config = optimizer.get_config()
    rate = config["learning_rate"]
    if isinstance(rate, dict):
        rate = Scaled(keras.saving.deserialize_keras_object(rate), factor)
    else:
        rate = factor * rate
    return type(optimizer).from_config({**config, "name": name, "learning_rate": rate})
