from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import at_least_single
from dann.adaptation.networks import copy_network
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.checks import check_number
from dann.layers.state import add_state


@REGULARIZERS.register("self_ensembling")
class SelfEnsembling(Regularizer):
    """Self-ensembling: the classifier agrees with a moving average of itself, its mean teacher.

    With `q` the teacher's softmax of a target example as it is, and `p` the classifier's of the
    same example as it is trained on, that is augmented and with dropout,

    - `S = mean_t [max_k q_k > threshold] * mean_k (p_k - q_k)^2`, where `q` is constant

    Nothing in `S` keeps classes from dying out. So another term pulls the mean prediction
    `m = mean_t p` of a batch to `C` equal shares, the more the teacher is sure of, `s = mean_t
    [max_k q_k > threshold]`:

    - `B = s * sum_k BCE(m_k, 1 / C)`, with the binary cross-entropy `BCE(m, y) = -y log m - (1 - y)
      log(1 - m)`
    - loss: `S + balance * B`

    A share of a class below 1e-7 counts as 1e-7 and has no gradient: `B` keeps a class alive, but
    brings none back.

    Before training step `n`, counted from 0, each number `w` of the classifier, its weights and its
    moving statistics, goes into the teacher's `v`:

    - `v = d v + (1 - d) w` with `d = min(decay, n / (n + 1))`

    So the teacher begins as the classifier and averages all its steps, until `decay` says which it
    forgets. It runs in inference mode, and its numbers have the type of the classifier's: in plain
    bfloat16 they may stand still. Its numbers and the count are saved with the model. After
    training, `teacher.predict(images)` asks the teacher itself.

    Without augmentation or dropout the two hardly differ and the loss does little.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `3.0`, as in the authors' code.
        threshold: Confidence above which the teacher is believed, from 0 up to below 1. Defaults
            to `0.968`, as in the authors' code.
        decay: Share of the teacher that each step keeps, in [0, 1). Defaults to `0.99`.
        balance: Factor of `B`, at least 0. Defaults to `0.005`, as in the authors' code. `0.0`
            leaves it out: for targets whose classes do not come in equal parts.

    Raises:
        NotImplementedError: If the classifier cannot be copied, because a class of its own lacks
            `get_config`.
        ValueError: If it joins a second model: each teacher has one classifier.

    Example:

    >>> import dann, keras
    >>> shifts = [keras.layers.RandomTranslation(0.1, 0.1)]
    >>> backbone = dann.networks.cnn_backbone((16, 16, 1), filters=(4, 8), units=6)
    >>> model = dann.DANN(
    ...     backbone, num_classes=3, augmentation={"source": shifts, "target": shifts},
    ...     regularizers=[dann.SelfEnsembling()],
    ... )

    Reference:
        - [French et al., 2018](https://arxiv.org/abs/1706.05208), section 3. There both
          views are augmented, and each domain has its own batch statistics.
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
        self.threshold = check_number("threshold", threshold, low=0, high=1, below=True)
        self.decay = check_number("decay", decay, low=0, high=1, below=True)
        self.balance = check_number("balance", balance, low=0)
        self.teacher: Any = None

    def join(self, model):
        if self.teacher is not None:
            raise ValueError(
                "A teacher has one classifier: give each model its own `SelfEnsembling()`. "
                "Received: one that has joined a model before"
            )
        self.teacher = Teacher(copy_network(model.classifier), name="mean_teacher")
        self.layers = (self.teacher,)

    def before_step(self, model):
        step = ops.cast(self.teacher.step.value, "float32")
        self.teacher.learn_from(model.classifier, ops.minimum(self.decay, step / (step + 1)))

    def loss(self, model, x, batch):
        # On JAX the teacher of this step is a function of the weights.
        q = ops.stop_gradient(ops.softmax(at_least_single(self.teacher(x["target"]))))
        p = ops.softmax(batch.logits["target"])
        sure = ops.cast(ops.max(q, axis=-1) > self.threshold, p.dtype)
        agreement = ops.mean(sure * ops.mean(ops.square(p - q), axis=-1))
        return agreement + self.balance * ops.mean(sure) * _imbalance(ops.mean(p, axis=0))


def _imbalance(shares):
    """The binary cross-entropies of the classes' shares `(classes,)` from equal ones, summed."""
    equal = ops.full_like(shares, 1 / shares.shape[0])
    return ops.sum(ops.binary_crossentropy(equal, shares))


class Teacher(keras.layers.Layer):
    """A network whose weights follow another's, in inference mode; it counts its steps.

    Args:
        network: A network with the same weights' shapes as the other.
    """

    def __init__(self, network: keras.Model, **kwargs):
        super().__init__(trainable=False, autocast=False, **kwargs)  # the network casts
        self.network: Any = network
        self.network.trainable = False
        self.step = add_state(self, "step", "int", 0)
        self.built = True

    def call(self, inputs):
        return self.network(inputs, training=False)

    def learn_from(self, other: keras.Model, kept: Any) -> None:
        """Moves each weight to `kept * weight + (1 - kept) * its`, and counts the step."""
        for mine, its in zip(self.network.weights, other.weights, strict=True):
            if keras.backend.is_float_dtype(mine.dtype):
                share = ops.cast(1 - kept, mine.dtype)
                moved = mine.value + share * (its.value - mine.value)
                mine.assign(ops.where(kept > 0, moved, its.value))  # without rounding at 0
            else:
                mine.assign(ops.where(kept < 1, its.value, mine.value))
        self.step.assign_add(1)

    def predict(self, inputs: Any) -> Any:
        """Returns the logits of inputs, as `keras.Model.predict` gives them."""
        return self.network.predict(inputs, verbose=0)
