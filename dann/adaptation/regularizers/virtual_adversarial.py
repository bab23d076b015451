import keras
from keras import ops

from dann.adaptation.batch import HALF, at_least_single, is_movable
from dann.adaptation.preserve_state import preserve_state
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.autodiff import gradients
from dann.checks import check_number

PROBE, PROBE_IN_HALF = 0.01, 1.0  # share of the radius; in half precision .01 is rounded away


@REGULARIZERS.register("vat", needs={"radius": 0.5})
class VirtualAdversarial(Regularizer):
    """Predictions must not change within a small ball around each target input.

    With `p(x)` the softmax of the classifier's logits and a random direction `d` of length 1,

    - `g = dKL(p(x) || p(x + r)) / dr` at `r = 0.01 * radius * d`, one power iteration
    - `r_adv = radius * g / ||g||`
    - loss: `mean_t KL(p(x_t) || p(x_t + r_adv))`, where `p(x_t)` and `r_adv` are constants

    The radius is the length of a perturbation of a whole input, in the units of the inputs. VADA's
    3.5 for inputs between -1 and 1 is about 450 for images of 0 to 255, also if the network begins
    with a `Rescaling`.

    In half precision, mixed or not, a hundredth of the radius would be rounded away; there
    `r = radius * d`.

    Of several inputs, such as an image and numbers, all that are floating-point or bytes are
    perturbed together, and the radius is that of all of them.

    Of maps of logits the mean is over all positions.

    The classifier runs on inputs without augmentation, twice with the same noise (dropout), with
    the batch's own statistics as in training, and keeps its state.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `0.01`, as in VADA.
        radius: Length of the perturbation in the units of the inputs, above 0. Must be given,
            because no default suits all inputs.
        source_weight: Factor of the same loss on the source, which is added to the target's before
            `weight` multiplies both. Defaults to `0.0`; VADA uses 0 or 100.
        seed: Seed of the directions. Defaults to a random one.

    Raises:
        TypeError: If `radius` is not given.
        ValueError: In training, if no part of the inputs can be moved, because they are strings or
            integers of more than a byte, such as numbers of tokens.

    Example:

    >>> import dann
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> regularizers = [dann.ConditionalEntropy(), dann.VirtualAdversarial(radius=0.5)]
    >>> vada = dann.DANN(backbone, num_classes=3, strength=0.01, regularizers=regularizers)

    Reference:
        - [Miyato et al., 2018](https://arxiv.org/abs/1704.03976), algorithm 1.
        - [Shu et al., 2018](https://arxiv.org/abs/1802.08735), equations 7 and 8.
    """

    name = "vat"
    arguments = ("weight", "radius", "source_weight", "seed")
    needs_target_logits = False
    needs_classes = True
    supports_maps = True

    def __init__(
        self,
        weight: float = 0.01,
        radius: float | None = None,
        source_weight: float = 0.0,
        seed: int | None = None,
    ):
        super().__init__(weight)
        self.radius = check_number("radius", radius, low=0, above=True)  # type: ignore[arg-type]
        self.source_weight = check_number("source_weight", source_weight, low=0)
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)
        self.layers = (self.generator,)

    def loss(self, model, x, batch):
        loss = self._divergence(model, x["target"])
        if self.source_weight:
            loss = loss + self.source_weight * self._divergence(model, x["source"])
        return loss

    def _divergence(self, model, inputs):
        parts = keras.tree.flatten(inputs)
        places = [place for place, part in enumerate(parts) if is_movable(part)]
        if not places:
            raise ValueError(
                "`VirtualAdversarial` perturbs inputs, so at least one must be floating-point, or "
                f"images of bytes. Received: types {[str(part.dtype) for part in parts]}"
            )
        for place in places:
            parts[place] = ops.cast(parts[place], keras.config.floatx())

        def log_probabilities(*moves):
            moved = list(parts)
            for place, move in zip(places, moves, strict=False):  # none at first
                moved[place] = parts[place] + move
            x = keras.tree.pack_sequence_as(inputs, moved)
            with preserve_state(model):
                logits = model.label_head(model.backbone(x, training=True), training=True)
                return ops.log_softmax(at_least_single(logits))

        log_p = ops.stop_gradient(log_probabilities())
        p = ops.exp(log_p)

        def divergence(log_q):
            return ops.sum(p * (log_p - log_q), axis=-1)

        def magnified(*moves):
            log_q = log_probabilities(*moves)
            # The slope's length does not matter. It begins at 256 at the logits, because it would
            # underflow in half precision on its way to the inputs.
            change = ops.stop_gradient(ops.max(ops.abs(ops.exp(log_q) - p)))
            return 256 / ops.maximum(change, 1e-6) * ops.sum(divergence(log_q))

        in_half = any(layer.compute_dtype in HALF for layer in model.classifier.layers)
        share = PROBE_IN_HALF if in_half else PROBE
        shapes = [ops.shape(parts[place]) for place in places]
        drawn = _unit([keras.random.normal(shape, seed=self.generator) for shape in shapes])
        slopes = gradients(magnified, [share * self.radius * direction for direction in drawn])
        moves = [ops.stop_gradient(self.radius * direction) for direction in _unit(slopes)]
        return ops.mean(divergence(log_probabilities(*moves)))


def _unit(tensors):
    """Scales the tensors of each example together to length 1 and keeps 0.

    In two steps, or the squares may underflow.
    """
    rows = [ops.reshape(x, (ops.shape(x)[0], -1)) for x in tensors]
    joined = ops.concatenate(rows, axis=1)
    largest = ops.maximum(ops.max(ops.abs(joined), axis=1, keepdims=True), 1e-30)
    squares = ops.sum(ops.square(joined / largest), axis=1, keepdims=True)
    length = ops.maximum(ops.sqrt(squares), 1.0)
    scaled = [row / largest / length for row in rows]
    return [ops.reshape(row, ops.shape(x)) for row, x in zip(scaled, tensors, strict=True)]
