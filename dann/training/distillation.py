"""Knowledge distillation: one network that imitates the average of several runs."""

from typing import Any

import keras
import numpy as np

from dann.checks import check_classifier, check_integer, check_shape
from dann.data.examples import Examples
from dann.data.pair import BATCH_SIZE
from dann.data.pairs import IndexedDomain, Pairs
from dann.data.sampling import Sampler
from dann.training.preparation import choose_jit_compile


def distill(
    classifier: Any, inputs: Any, probabilities: np.ndarray, steps: int, seed: int = 0
) -> None:
    """Trains a classifier, in place, to predict given class probabilities.

    With target inputs `x` and the mean `p(x)` of the class probabilities of several runs, Adam with
    a learning rate of 0.001 minimizes the cross-entropy

    - `-mean over x of sum over k of p_k(x) * log_softmax(logits(x))_k`

    in batches of 64 examples, or all if there are fewer. No label is read. The page "Experiments"
    compares the result with the average itself.

    Args:
        classifier: Functional Keras model from inputs to logits `(n, num_classes)`, such as
            `dann.SourceOnly(backbone, num_classes).classifier`.
        inputs: Inputs of the target `(n, ...)`, or a list or dict of arrays.
        probabilities: Class probabilities of these inputs, `(n, num_classes)`, such as the
            `average` that `dann.selection.recommend` returns.
        steps: Number of steps, at least 1.
        seed: Seed of the order of the examples, at least 0. Defaults to `0`.

    Raises:
        TypeError: If the classifier is not functional.
        ValueError: If `probabilities` does not match the inputs or the logits, or contains values
            below 0 or rows that do not sum to 1.

    Example:

    >>> import keras, numpy as np
    >>> from dann.training import distill
    >>> x = np.array([[-1.0], [1.0]], "float32")
    >>> inputs = keras.Input((1,))
    >>> classifier = keras.Model(inputs, keras.layers.Dense(2, kernel_initializer="zeros")(inputs))
    >>> distill(classifier, x, np.array([[0.9, 0.1], [0.2, 0.8]]), steps=2000)
    >>> np.asarray(keras.ops.softmax(classifier(x))).astype(float).round(1).tolist()
    [[0.9, 0.1], [0.2, 0.8]]

    Reference:
        - [Hinton et al., 2015](https://arxiv.org/abs/1503.02531), section 2, with temperature 1.
    """
    check_integer("steps", steps, low=1)
    check_integer("seed", seed, low=0)
    probabilities = np.asarray(probabilities)
    check_shape("`probabilities`", probabilities.shape, ["n", "num_classes"])
    check_classifier(classifier, probabilities.shape[1])
    examples = Examples({"inputs": inputs, "labels": probabilities}, "target")
    sums = probabilities.sum(axis=1, dtype="float64")
    if probabilities.min() < 0 or not np.allclose(sums, 1, atol=1e-3):
        raise ValueError(
            "Expected `probabilities` in [0, 1], with rows that sum to 1. Received: values from "
            f"{probabilities.min():.3g} to {probabilities.max():.3g}, and sums from "
            f"{sums.min():.3g} to {sums.max():.3g}. Apply a softmax to logits"
        )
    domain = IndexedDomain(examples, Sampler(examples.count, True, seed, 0))
    batches = Pairs({"source": domain}, min(BATCH_SIZE, examples.count), None)
    # A second model with the same layers keeps the optimizer out of the classifier's file.
    student: Any = keras.Model(classifier.input, classifier.output)
    student.compile(
        optimizer=keras.optimizers.Adam(),
        loss=keras.losses.CategoricalCrossentropy(from_logits=True),
        jit_compile=choose_jit_compile(),
    )
    student.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
