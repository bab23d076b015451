import keras
from keras import ops

from dann.adaptation.batch import HALF_TYPES, is_continuous, upcast_half
from dann.adaptation.preserve_state import preserve_state
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.autodiff import gradients
from dann.checks import check_number

# Length of the first perturbation as a fraction of the radius. Half precision would lose 0.01 when
# it is added to the inputs.
INITIAL_RADIUS_FRACTION, INITIAL_RADIUS_FRACTION_HALF = 0.01, 1.0


@REGULARIZERS.register("vat", example_arguments={"radius": 0.5})
class VirtualAdversarial(Regularizer):
    """Virtual adversarial training: predictions stay constant in a small ball around each input.

    With `p(x)` the softmax of the classifier's logits and a random direction `d` of length 1,

    - `g = dKL(p(x) || p(x + r)) / dr` at `r = 0.01 * radius * d`, one power iteration
    - `r_adv = radius * g / ||g||`
    - loss: `mean_t KL(p(x_t) || p(x_t + r_adv))`, where `p(x_t)` and `r_adv` are constants

    The radius is the length of the perturbation of a whole input, in the units of the inputs.
    VADA's radius of 3.5 for inputs between -1 and 1 corresponds to about 450 for images of 0 to
    255, even if the network begins with a `Rescaling` layer.

    In half precision, mixed or not, `r = radius * d`, because a sum of `x` and a hundredth of it
    would be rounded to `x`.

    With several inputs, such as an image and numbers, all floating-point and 8-bit inputs are
    perturbed together, and the radius is the norm of the joint perturbation. For maps of logits the
    mean includes all positions.

    The classifier runs on inputs without augmentation, twice with the same noise (dropout), with
    the statistics of the batch as in training. Its state does not change.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `0.01`, as in VADA.
        radius: Length of the perturbation in the units of the inputs, above 0. Required, because
            no default fits all inputs.
        source_weight: Factor of the same loss on the source, which is added to the target's loss
            before `weight` multiplies both. Defaults to `0.0`; VADA uses 0 or 100.
        seed: Seed of the directions. Defaults to a random seed.

    Raises:
        TypeError: If `radius` is missing.
        ValueError: In training, if no input can be perturbed, because all inputs are strings or
            integers of more than one byte, such as token indices.

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
        self.radius = check_number("radius", radius, low=0, exclude_low=True)  # type: ignore[arg-type]
        self.source_weight = check_number("source_weight", source_weight, low=0)
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)
        self.layers = (self.generator,)

    def losses(self, model, batch, reversal, training):
        loss = self._divergence(model, batch.raw_inputs["target"])
        if self.source_weight:
            source_loss = self._divergence(model, batch.raw_inputs["source"])
            loss = loss + self.source_weight * source_loss
        return {"vat/loss": loss}

    def _divergence(self, model, inputs):
        leaves = keras.tree.flatten(inputs)
        indices = [index for index, leaf in enumerate(leaves) if is_continuous(leaf)]
        if not indices:
            raise ValueError(
                "Expected floating-point inputs or images of bytes, which `VirtualAdversarial` "
                f"perturbs. Received: types {[str(leaf.dtype) for leaf in leaves]}."
            )
        for index in indices:
            leaves[index] = ops.cast(leaves[index], keras.config.floatx())

        def log_probabilities(perturbations=()):
            moved = list(leaves)
            for index, perturbation in zip(indices, perturbations, strict=False):
                moved[index] = leaves[index] + perturbation
            x = keras.tree.pack_sequence_as(inputs, moved)
            with preserve_state(model):
                logits = model.label_head(model.backbone(x, training=True), training=True)
                return ops.log_softmax(upcast_half(logits))

        log_p = ops.stop_gradient(log_probabilities())
        p = ops.exp(log_p)

        def divergence(log_q):
            return ops.sum(p * (log_p - log_q), axis=-1)

        def scaled_divergence(*perturbations):
            log_q = log_probabilities(perturbations)
            # Only the direction of the gradient matters. Its size at the logits is set to 256,
            # because it would underflow in half precision on its way to the inputs.
            change = ops.stop_gradient(ops.max(ops.abs(ops.exp(log_q) - p)))
            return 256 / ops.maximum(change, 1e-6) * ops.sum(divergence(log_q))

        is_half = any(layer.compute_dtype in HALF_TYPES for layer in model.classifier.layers)
        fraction = INITIAL_RADIUS_FRACTION_HALF if is_half else INITIAL_RADIUS_FRACTION
        shapes = [ops.shape(leaves[index]) for index in indices]
        noise = [keras.random.normal(shape, seed=self.generator) for shape in shapes]
        initial = [
            fraction * self.radius * direction for direction in _normalize_per_example(noise)
        ]
        # Algorithm 1: g at the random initial perturbation, one power iteration.
        directions = _normalize_per_example(gradients(scaled_divergence, initial))
        perturbations = [ops.stop_gradient(self.radius * direction) for direction in directions]
        return ops.mean(divergence(log_probabilities(perturbations)))


def _normalize_per_example(tensors):
    """Scales the tensors of each example together to length 1; zeros remain zeros."""
    rows = [ops.reshape(x, (ops.shape(x)[0], -1)) for x in tensors]
    joined = ops.concatenate(rows, axis=1)  # (batch, numbers of all tensors)
    # First divided by the largest number, because the squares of small numbers may underflow.
    largest = ops.maximum(ops.max(ops.abs(joined), axis=1, keepdims=True), 1e-30)
    squares = ops.sum(ops.square(joined / largest), axis=1, keepdims=True)
    length = ops.maximum(ops.sqrt(squares), 1.0)
    scaled = [row / largest / length for row in rows]
    return [ops.reshape(row, ops.shape(x)) for row, x in zip(scaled, tensors, strict=True)]
