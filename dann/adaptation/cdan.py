import keras
from keras import ops

from dann.adaptation.dann import DANN, joint_predictions
from dann.adaptation.methods import METHODS
from dann.checks import check_flag
from dann.layers import MultilinearMap


@METHODS.register(
    "cdan",
    summary="the discriminator sees features and predictions together",
    when="many classes; DANN mixes them up",
)
@METHODS.register(
    "cdan_e",
    summary="CDAN+E: CDAN in which sure predictions weigh more",
    when="CDAN, where many predictions are unsure at first",
    title="CDAN+E",
    arguments={"entropy_conditioning": True},
)
@METHODS.register(
    "sdat",
    summary="any method with a smooth task step, `+method.task_radius=.05`",
    when="sharp minima, larger networks",
    arguments={"task_radius": 0.05},
)
@keras.saving.register_keras_serializable("dann")
class CDAN(DANN):
    """Conditional domain-adversarial network.

    DANN whose discriminator sees every product of a feature and a predicted probability, so that
    the domains are aligned class by class.

    With features `f`, label head `c`, predictions `g = softmax(c(f))`, `T` the map of
    `dann.layers.MultilinearMap`, discriminator `d`, domain label 0 for source and 1 for target and
    `CE`, `BCE` the cross-entropies from logits, one step descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of w(x) * BCE(d(T(f(x), g(x))), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * D`

    The predictions get no gradient from `D`. Without `entropy_conditioning` each `w` is 1. With it
    (CDAN+E) certain predictions weigh more: `w = 1 + exp(-H(g))`, with the entropy `H`, divided by
    its mean over the domain's part of the batch. `w` gets no gradient either.

    In training the logs also hold `domain/loss` and `domain/accuracy`.

    Args:
        domain_head: As in `DANN`, but from the products: `min(num_features * num_classes,
            max_units)` inputs.
        entropy_conditioning: Whether certain predictions weigh more. Defaults to `False`.
        max_units: Greatest number of products; if there are more, they are projected at random.
            Defaults to `4096`.

    The other arguments are those of `DANN`.

    Example:

    >>> import dann
    >>> model = dann.CDAN(dann.networks.mlp_backbone((2,), hidden_units=(8,)), num_classes=3)
    >>> model.domain_head.input_shape
    (None, 24)

    Reference:
        - [Long et al., 2018](https://arxiv.org/abs/1705.10667), section 3: multilinear and
          entropy conditioning, and theorem 1 for the projection at random.
    """

    takes_maps = False
    classifies_target = True
    of_classes = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        domain_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        domain_label_smoothing=0.0,
        entropy_conditioning=False,
        max_units=4096,
        **kwargs,
    ):
        self.max_units = max_units  # DANN's constructor asks for the number of products
        super().__init__(
            backbone,
            num_classes,
            label_head,
            domain_head,
            strength,
            way,
            passes,
            domain_label_smoothing,
            **kwargs,
        )
        self.entropy_conditioning = check_flag("entropy_conditioning", entropy_conditioning)
        self.multilinear_map = MultilinearMap(max_units, name="multilinear_map")
        self.when_known(self._build_map)

    def _build_map(self):
        self.multilinear_map.build([(None, self.num_features), (None, self.num_classes)])

    @classmethod
    def adversary_inputs(cls, num_features, num_classes, max_units=4096, **kwargs):
        shapes = [(None, num_features), (None, num_classes)]
        return MultilinearMap(max_units).compute_output_shape(shapes)[1]

    def domain_head_inputs(self):
        return None, self.adversary_inputs(self.num_features, self.num_classes, self.max_units)

    def discriminate(self, features, logits, training):
        products = self.multilinear_map([features, joint_predictions(logits)])
        return self.domain_head(products, training=training)

    def domain_weights(self, y, forward):
        if not self.entropy_conditioning:
            return None
        weights = [_certainty(forward.logits[domain]) for domain in ("source", "target")]
        return ops.concatenate([weight / ops.mean(weight) for weight in weights])

    def get_config(self):
        return {
            **super().get_config(),
            "entropy_conditioning": self.entropy_conditioning,
            "max_units": self.max_units,
        }


def _certainty(logits):
    """Returns `1 + exp(-H)` of each prediction, without gradient."""
    logarithms = ops.log_softmax(ops.stop_gradient(logits))
    return 1 + ops.exp(ops.sum(ops.exp(logarithms) * logarithms, axis=1))
