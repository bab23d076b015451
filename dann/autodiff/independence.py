"""Whether the examples of a batch are independent, as every Jacobian of an example requires."""

from typing import Any, NamedTuple

import keras
import numpy as np

from dann.autodiff.arguments import floating_tensor
from dann.autodiff.engines import running_engine
from dann.autodiff.function_cache import cached_with
from dann.autodiff.functions import as_function, as_pure_function


class IndependentBatch(NamedTuple):
    """A batch of inputs as a tensor, and the shape of one example's output."""

    inputs: Any
    output_shape: tuple[int, ...]


def check_independence(function: Any, inputs: Any) -> IndependentBatch:
    """Checks that each output of a batch depends on its own example alone.

    The outputs of a random half of the examples must have no gradient with respect to the other
    half, and two calls must agree. A Keras model or a compiled function is checked once for each
    shape.

    Raises:
        TypeError: If the inputs or outputs are not floating tensors, or the inputs are symbols in
            a function that is being compiled.
        ValueError: If there is no example, or the function does not return one output with at
            least one number per example, differs between two calls, or lets examples depend on
            each other.
    """
    inputs = floating_tensor(inputs, "inputs")
    if not running_engine().is_concrete(inputs):
        raise TypeError(
            "Argument `inputs` must have values, because the function is checked with them. Call "
            "this outside compiled functions; it compiles by itself. Received: a symbol"
        )
    if len(inputs.shape) == 0 or 0 in inputs.shape:
        raise ValueError(
            "Argument `inputs` must hold at least one example and one number in each. "
            f"Received: shape={tuple(inputs.shape)}"
        )
    key = ("independent", tuple(inputs.shape), inputs.dtype)
    return IndependentBatch(inputs, cached_with(function, key, lambda get: _check(get(), inputs)))


def _check(function, inputs):
    """Returns the shape of an example's output, or raises an error."""
    call = as_function(function)
    engine, rng = running_engine(), np.random.default_rng(0)
    if inputs.shape[0] == 1:
        # A single example has no other to depend on, so it gets one.
        values: np.ndarray = np.asarray(keras.ops.convert_to_numpy(inputs))
        second = values + 0.1 * np.abs(values).max() + rng.normal(size=values.shape)
        inputs = engine.tensor(np.concatenate([values, second.astype(values.dtype)]))
    with keras.StatelessScope():  # in it a layer's seed advances from call to call
        outputs, again = call(inputs), call(inputs)
    _check_output(outputs, inputs.shape[0])
    _check_repeated(_doubles(outputs), _doubles(again))
    outputs, pull = engine.pull_back(as_pure_function(function), [inputs])
    half = rng.permutation(inputs.shape[0]) % 2 == 0
    for chosen in (half, ~half):
        shape = (-1,) + (1,) * (len(outputs.shape) - 1)
        upstream = rng.normal(size=outputs.shape) * chosen.reshape(shape)
        (gradient,) = pull([keras.ops.cast(upstream, outputs.dtype)])
        _check_others(_doubles(gradient), chosen)
    return tuple(outputs.shape[1:])


def _check_output(outputs, batch):
    if keras.tree.is_nested(outputs):
        raise ValueError(
            "Argument `function` must return one tensor; choose one of its outputs. "
            f"Received: {len(keras.tree.flatten(outputs))} outputs"
        )
    floating_tensor(outputs, "function(inputs)")
    if len(outputs.shape) == 0 or outputs.shape[0] != batch:
        raise ValueError(
            f"Argument `function` must return an output for each of the {batch} examples; for "
            f"other functions use `jacobian`. Received: output of shape {tuple(outputs.shape)}"
        )
    if 0 in outputs.shape:
        raise ValueError(
            "Argument `function` must return at least one number for each example. "
            f"Received: output of shape {tuple(outputs.shape)}"
        )


def _check_repeated(outputs, again):
    difference = np.abs(outputs - again).max(initial=0.0)
    if difference > 1e-5 * np.abs(outputs).max(initial=0.0):
        raise ValueError(
            "Argument `function` must give the same outputs twice, but it is random, as dropout in "
            "training is. Call the model with `training=False`, or fix the seed. "
            f"Received: outputs that differ by {difference:.3g}"
        )


def _check_others(gradient, chosen):
    own, others = np.abs(gradient[chosen]), np.abs(gradient[~chosen])
    if others.max(initial=0.0) > 1e-6 * own.max(initial=0.0):
        raise ValueError(
            "Argument `function` must treat the examples of a batch one by one, but the outputs of "
            "some depend on the others, as with the batch statistics of BatchNormalization in "
            "training. Their Jacobians would be wrong: call the model with "
            f"`training=False`, or use `jacobian`. Received: a gradient of {others.max():.3g} "
            "with respect to other examples"
        )


def _doubles(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor), "float64")
