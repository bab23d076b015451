"""A step of DANN in the backend's own terms, to compare the package with: no class of it is used.

Layers and cross-entropies are Keras's. The reversal, the differentiation and the update are written
down once for each backend.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops


class PlainTraining(NamedTuple):
    """A training by hand.

    Attributes:
        step: Function of source inputs, target inputs and source labels, tensors; takes a step of
            gradient descent and returns the loss.
        weights: Function that returns the weights after the steps so far.
    """

    step: Callable[[Any, Any, Any], Any]
    weights: Callable[[], list[np.ndarray]]


def plain_training(parts: Sequence[keras.Model], rate: float, strength: float) -> PlainTraining:
    """Returns a compiled training of DANN by hand; on torch, which is fastest so, an eager one.

    Args:
        parts: Backbone, label head and domain head, built; without random layers or moving
            statistics. JAX leaves their variables as they are.
        rate: Learning rate.
        strength: Strength of the reversal.
    """
    made = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": _on_torch}
    weights = [weight for part in parts for weight in part.trainable_variables]
    return made[keras.backend.backend()](parts, weights, rate, strength)


def gradient(function: Callable[[Any], Any], x: Any, upstream: Any, compiled: bool) -> Any:
    """Returns the gradient of `sum(upstream * function(x))` in the backend's own terms."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        def differentiate(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tape.gradient(y, x, upstream)

        return (tf.function(differentiate, autograph=False) if compiled else differentiate)(x)
    if backend == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        def pull_back(x):
            return jax.vjp(function, x)[1](upstream)[0]

        return (jax.jit(pull_back) if compiled else pull_back)(x)
    import torch  # pyright: ignore[reportMissingImports]

    # This compiler traces forward and backward, and needs no C++ compiler on the machine.
    run: Any = torch.compile(function, backend="aot_eager") if compiled else function
    x = x.detach().requires_grad_()
    return torch.autograd.grad(run(x), x, upstream)[0]


def _loss(parts, reverse, source, target, labels) -> Any:
    backbone, label_head, domain_head = parts
    count = source.shape[0]
    features = backbone(ops.concatenate([source, target]), training=True)
    logits = label_head(features[:count], training=True)
    guesses = domain_head(reverse(features), training=True)
    domain = ops.concatenate([ops.zeros_like(guesses[:count]), ops.ones_like(guesses[count:])])
    of_labels = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return ops.mean(of_labels) + ops.mean(
        ops.binary_crossentropy(domain, guesses, from_logits=True)
    )


def _on_tensorflow(parts, weights, rate, strength):
    import tensorflow as tf

    variables = [weight.value for weight in weights]

    @tf.custom_gradient
    def reverse(x):
        return tf.identity(x), lambda upstream: -strength * upstream

    @tf.function(autograph=False)
    def step(*batch):
        with tf.GradientTape() as tape:
            loss = _loss(parts, reverse, *batch)
        for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(rate * slope)
        return loss

    return PlainTraining(step, lambda: [variable.numpy() for variable in variables])


def _on_jax(parts, weights, rate, strength):
    import jax  # pyright: ignore[reportMissingImports]

    @jax.custom_vjp
    def reverse(x):
        return x

    reverse.defvjp(lambda x: (x, None), lambda _, upstream: (-strength * upstream,))

    def loss_of(values, batch):
        with keras.StatelessScope(list(zip(weights, values, strict=True))):
            return _loss(parts, reverse, *batch)

    @jax.jit
    def descend(values, batch):
        loss, slopes = jax.value_and_grad(loss_of)(values, batch)
        return loss, [value - rate * slope for value, slope in zip(values, slopes, strict=True)]

    values = [weight.value for weight in weights]

    def step(*batch):
        nonlocal values
        loss, values = descend(values, batch)
        return loss

    return PlainTraining(step, lambda: [np.asarray(value) for value in values])


def torch_reversal(strength: float) -> Callable[[Any], Any]:
    """Returns the reversal in PyTorch's own terms: the identity, whose gradient is reversed."""
    import torch  # pyright: ignore[reportMissingImports]

    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, upstream):  # pyright: ignore[reportIncompatibleMethodOverride]
            return -strength * upstream

    return Reverse.apply


def _on_torch(parts, weights, rate, strength):
    import torch  # pyright: ignore[reportMissingImports]

    variables = [weight.value for weight in weights]
    reverse = torch_reversal(strength)

    def step(*batch):
        loss = _loss(parts, reverse, *batch)
        slopes = torch.autograd.grad(loss, variables)
        with torch.no_grad():
            for variable, slope in zip(variables, slopes, strict=True):
                variable -= rate * slope
        return loss.detach()

    return PlainTraining(step, lambda: [v.detach().cpu().numpy().copy() for v in variables])
