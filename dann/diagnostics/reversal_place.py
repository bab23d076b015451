"""Whether a reversal of a functional model stands where it should."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients
from dann.diagnostics.passes import as_vector, at_weights
from dann.layers import GradientReversal


def fault_of_place(
    before: Any, after: Any, data: Any, others: Any, several: bool, passes: bool
) -> str | None:
    """Returns what is wrong with the place of a reversal, a state of `certify`, or `None`.

    Args:
        before: The model from the inputs to what is reversed.
        after: The model from what the reversal returns to the outputs that come from it; `None` if
            the reversal is the last layer.
        data: Inputs of `before`.
        others: The model from the inputs to the outputs that do not come from a reversal, such as
            the labels'; `None` if there are none.
        several: Whether there are several outputs.
        passes: Whether `after` gives what is reversed a gradient.
    """
    behind = [] if after is None else after.layers
    if any(isinstance(one, GradientReversal) for one in behind):
        return "applied twice"
    if not any(one.trainable_weights for one in behind):
        return "discriminator frozen" if after and after.weights else "behind the discriminator"
    if not before.trainable_weights:
        return "backbone frozen"
    if others is None and several:
        return "every output"
    serves = {id(one) for one in others.layers} if others else set()
    own = [one for one in before.layers if one.trainable_weights and id(one) not in serves]
    if others and own:
        return "within the discriminator"
    if passes:
        return None if _learns(before, data) else "detached"
    with preserve_state(before):
        features = before(data, training=True)
    return "detached" if _learns(after, features) else None


def _learns(network, x):
    """Whether a weight of a network gets a gradient from its outputs."""
    weights = network.trainable_variables
    total = at_weights(network, weights, lambda: random_sum(network(x, training=True)))
    found = gradients(total, [ops.convert_to_tensor(one.value) for one in weights])
    return bool(np.any(as_vector(found)))


def random_sum(outputs: Any) -> Any:
    """Returns the sum of all floating-point numbers in outputs, each times a fixed random one."""
    rng = np.random.default_rng(0)
    total = ops.zeros(())
    for output in filter(is_floating, keras.tree.flatten(outputs)):
        weights = ops.convert_to_tensor(rng.normal(size=tuple(output.shape)), "float32")
        total = total + ops.sum(ops.cast(output, "float32") * weights)
    return total


def in_words(model: Any, outputs: Any, turned: Sequence[bool]) -> dict[str, str]:
    """Returns which of several outputs come from the reversal and which do not.

    Args:
        model: The model, whose own names of its outputs are taken if it has some.
        outputs: Its outputs, tensors in any structure.
        turned: Whether each of them comes from the reversal.
    """
    found = keras.tree.flatten_with_path(outputs)
    if len(found) == 1:
        return {}
    names = getattr(model, "output_names", None)
    names = names or [" ".join(map(str, ("output", *path))) for path, _ in found]
    widths = [one.shape[-1] if len(one.shape) > 1 else 1 for _, one in found]
    told = np.array([f"{name} ({width})" for name, width in zip(names, widths, strict=True)])
    own, others = (", ".join(told[np.equal(turned, side)]) for side in (True, False))
    return {"reversal/outputs": own, "reversal/other_outputs": others}


def is_floating(tensor: Any) -> bool:
    """Whether it is a single tensor of a floating type, which gradients flow through."""
    return ops.is_tensor(tensor) and "float" in keras.backend.standardize_dtype(tensor.dtype)
