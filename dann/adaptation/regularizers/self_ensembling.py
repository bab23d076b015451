from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import upcast_half
from dann.adaptation.networks import copy_network
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.checks import check_number
from dann.layers.state import add_state


@REGULARIZERS.register("self_ensembling")
class SelfEnsembling(Regularizer):
    """Self-ensembling: the classifier agrees with its own moving average, the mean teacher.

    With `q` the teacher's softmax for a target example without augmentation, and `p` the
    classifier's softmax for the same example in training, with augmentation and dropout,

    - `S = mean_t [max_k q_k > threshold] * mean_k (p_k - q_k)^2`, where `q` is constant

    `S` does not prevent classes from disappearing. A second term therefore pulls the mean
    prediction `m = mean_t p` of a batch of `C` classes towards `1 / C`, multiplied by the fraction
    `s = mean_t [max_k q_k > threshold]` of confident teacher predictions:

    - `B = s * sum_k BCE(m_k, 1 / C)`, with the binary cross-entropy
      `BCE(m, y) = -y log m - (1 - y) log(1 - m)`
    - loss: `S + balance * B`

    A mean prediction below 1e-7 is treated as 1e-7 and receives no gradient: `B` preserves a class
    but cannot restore one.

    Before training step `n`, counted from 0, every weight `v` of the teacher, including moving
    statistics, moves towards the classifier's weight `w`:

    - `v = d v + (1 - d) w` with `d = min(decay, n / (n + 1))`

    The teacher starts as a copy of the classifier and averages all steps until `n / (n + 1)`
    reaches `decay`. It runs in inference mode. Its weights have the dtypes of the classifier's
    weights, so in pure bfloat16 small updates can round to zero. The teacher and the step counter
    are saved with the model. After training, `teacher.network` is a Keras model with the averaged
    weights.

    Without augmentation or dropout the two networks hardly differ, and the loss has little effect.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `3.0`, as in the authors' code.
        threshold: Confidence above which a prediction of the teacher is used, in [0, 1). Defaults
            to `0.968`, as in the authors' code.
        decay: Weight of the old average in each update, in [0, 1). Defaults to `0.99`.
        balance: Factor of `B`, at least 0. Defaults to `0.005`, as in the authors' code. Use `0.0`
            for targets with unequal class proportions.

    Raises:
        NotImplementedError: If the classifier cannot be copied because a custom class has no
            `get_config`.
        ValueError: If a second model uses the regularizer: each teacher has one classifier.

    Example:

    >>> import dann, keras
    >>> shifts = [keras.layers.RandomTranslation(0.1, 0.1)]
    >>> backbone = dann.networks.cnn_backbone((16, 16, 1), filters=(4, 8), units=6)
    >>> model = dann.DANN(
    ...     backbone, num_classes=3, augmentation={"source": shifts, "target": shifts},
    ...     regularizers=[dann.SelfEnsembling()],
    ... )

    Reference:
        - [French et al., 2018](https://arxiv.org/abs/1706.05208), section 3. There the inputs of
          both networks are augmented, and each domain has its own batch statistics.
        - [Tarvainen and Valpola, 2017](https://arxiv.org/abs/1703.01780): the mean teacher.
    """

    name = "self_ensembling"
    arguments = ("weight", "threshold", "decay", "balance")
    needs_classes = True

    def __init__(
        self,
        weight: float = 3.0,
        threshold: float = 0.968,
        decay: float = 0.99,
        balance: float = 0.005,
    ):
        super().__init__(weight)
        self.threshold = check_number("threshold", threshold, low=0, high=1, exclude_high=True)
        self.decay = check_number("decay", decay, low=0, high=1, exclude_high=True)
        self.balance = check_number("balance", balance, low=0)
        self.teacher: Any = None

    def attach(self, model):
        if self.teacher is not None:
            raise ValueError(
                "Expected a new `SelfEnsembling()` for each model, because a teacher has one "
                "classifier. Received: an object that already belongs to a model."
            )
        self.teacher = Teacher(copy_network(model.classifier), name="mean_teacher")
        self.layers = (self.teacher,)

    def before_step(self, model):
        step = ops.cast(self.teacher.step.value, "float32")
        self.teacher.update(model.classifier, ops.minimum(self.decay, step / (step + 1)))

    def losses(self, model, batch, reversal, training):
        # Without `stop_gradient`, gradients on JAX would flow through the update of the teacher.
        q = ops.stop_gradient(ops.softmax(upcast_half(self.teacher(batch.raw_inputs["target"]))))
        p = ops.softmax(batch.logits["target"])
        is_confident = ops.cast(ops.max(q, axis=-1) > self.threshold, p.dtype)
        disagreement = ops.mean(is_confident * ops.mean(ops.square(p - q), axis=-1))
        shares = ops.mean(p, axis=0)  # (classes,)
        equal_shares = ops.full_like(shares, 1 / shares.shape[0])
        imbalance = ops.sum(ops.binary_crossentropy(equal_shares, shares))
        balance_loss = self.balance * ops.mean(is_confident) * imbalance
        return {"self_ensembling/loss": disagreement + balance_loss}


class Teacher(keras.layers.Layer):
    """A network in inference mode whose weights follow another network; counts its updates.

    Args:
        network: Copy of the network to follow.
    """

    def __init__(self, network: keras.Model, **kwargs):
        super().__init__(trainable=False, autocast=False, **kwargs)  # the network casts
        self.network: Any = network
        self.network.trainable = False
        self.step = add_state(self, "step", "int", 0)
        self.built = True

    def call(self, inputs):
        return self.network(inputs, training=False)

    def update(self, student: keras.Model, decay: Any) -> None:
        """Sets each weight to `decay * weight + (1 - decay) * student_weight`; counts the step."""
        for weight, source in zip(self.network.weights, student.weights, strict=True):
            if keras.backend.is_float_dtype(weight.dtype):
                share = ops.cast(1 - decay, weight.dtype)
                average = weight.value + share * (source.value - weight.value)
                weight.assign(ops.where(decay > 0, average, source.value))  # exact copy at 0
            else:
                weight.assign(ops.where(decay < 1, source.value, weight.value))
        self.step.assign_add(1)
