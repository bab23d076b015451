"""Gradient reversal: the identity whose gradient is negated and scaled."""

import numbers
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from dann.checks import check_choice, check_number
from dann.gradients.override import floating_tensor, override_pure_gradient
from dann.gradients.stop_gradient import straight_through


@keras.saving.register_keras_serializable("dann")
def reverse_gradient(inputs: Any, strength: Any = 1.0, implementation: str = "override") -> Any:
    """Returns `inputs` unchanged and reverses the gradient that flows back through them.

    - forward: `y = x`
    - backward: `dL/dx = -strength * dL/dy`

    `strength` gets no gradient. A tensor or variable is read at each call, so it may change without
    another trace.

    A second derivative through a reversal is `strength**2` times the Hessian. It is not the
    Jacobian of the vector field of min-max training, which
    `dann.diagnostics.minmax_spectrum` analyzes.

    Args:
        inputs: Floating-point tensor of any shape.
        strength: Scale of the reversed gradient, the paper's lambda: a number, a tensor or a
            variable, at least 0. Defaults to `1.0`.
        implementation: `"override"` replaces the backward pass. `"stop_gradient"` composes it from
            differentiable operations; it works under every transformation of every backend, but
            turns `-0.0` into `+0.0` and an infinite input into NaN. `"op_override"` overrides the
            gradient of a TensorFlow operation. Defaults to `"override"`.

    Returns:
        A tensor of the shape and type of `inputs`.

    Raises:
        TypeError: If `inputs` are not floating, or `strength` is not a number, tensor or variable.
        ValueError: If `implementation` is unknown, or `strength` is a number below 0 or not finite.

    Example:

    >>> import keras
    >>> from dann.gradients import reverse_gradient
    >>> float(reverse_gradient(keras.ops.array(2.0), strength=0.5))
    2.0

    Reference:
        - [Ganin and Lempitsky, 2015](https://arxiv.org/abs/1409.7495), equations 8 and 9.
    """
    inputs = floating_tensor(inputs)
    if not (ops.is_tensor(strength) or isinstance(strength, keras.Variable)):
        check_strength(strength)
    # Cast to the type of the inputs, so that the products keep that type.
    strength = ops.cast(ops.stop_gradient(ops.convert_to_tensor(strength)), inputs.dtype)
    check_choice("implementation", implementation, IMPLEMENTATIONS)
    return IMPLEMENTATIONS[implementation](inputs, strength)


def check_strength(strength: Any) -> float:
    """Returns `strength` as a float.

    Raises:
        ValueError: If `strength` is not a finite number of at least 0.
    """
    hint = "a tensor or a variable in functions, or a schedule of `dann.schedules` in layers"
    if isinstance(strength, numbers.Real) and strength < 0:
        hint = "because the reversal itself negates the gradient"
    return check_number("strength", strength, low=0, hint=hint)


def reject_synonyms(arguments: Mapping[str, Any], synonyms: Mapping[str, str] = {}) -> None:
    """Raises a `TypeError` for argument names that other libraries use.

    Args:
        arguments: Arguments by name.
        synonyms: Maps names that other libraries use to names in this package, in addition to the
            usual names of the strength of a reversal.
    """
    strength_names = ("lambda_", "lambd", "lamda", "hp_lambda", "alpha")
    names = {**dict.fromkeys(strength_names, "strength"), **synonyms}
    if rejected := [name for name in names if name in arguments]:
        corrections = ", ".join(f"`{names[name]}` for `{name}`" for name in rejected)
        raise TypeError(f"Write {corrections}. Received: {', '.join(rejected)}")


def _carry_reversal(inputs, strength):
    # The carrier is 0 and has the derivative `-strength`. It cannot overflow for finite inputs.
    return straight_through(inputs, ops.multiply(-strength, inputs - ops.stop_gradient(inputs)))


def _override_op(inputs, strength):
    from dann.gradients.op_override import reverse_op_gradient

    return reverse_op_gradient(inputs, strength)


# Built once, so that all calls share their traces.
IMPLEMENTATIONS = {
    "override": override_pure_gradient(
        forward=lambda inputs, strength: inputs,
        backward=lambda upstream, inputs, strength: (
            -strength * upstream,
            ops.zeros_like(strength),
        ),
    ),
    "stop_gradient": _carry_reversal,
    "op_override": _override_op,
}
