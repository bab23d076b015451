"""Which engine computes the Jacobians of a batch, and how much of them at a time."""

import math
from typing import Any, NamedTuple

import keras

ENGINES = ("pfor", "while", "forward")

# What a processor's caches and page faults leave fast, measured; see `docs/performance.md`.
_FAST_BYTES = 2**25


class Plan(NamedTuple):
    """How to compute the Jacobians of a batch.

    Attributes:
        engine: One of `ENGINES`.
        at_once: Outputs, or inputs if the engine is `"forward"`, that are vectorized over.
        bytes: The memory that it takes at its peak, estimated.
    """

    engine: str
    at_once: int
    bytes: int


def make_plan(inputs: Any, outputs: int, largest: int, engine: str, memory_budget: int) -> Plan:
    """Returns the plan for an engine, or for the one that suits the sizes.

    Args:
        inputs: Tensor `(batch, ...)`.
        outputs: Number of outputs of an example.
        largest: Elements of the largest tensor of the whole batch that the function computes.
        engine: One of `ENGINES`, or `"auto"`.
        memory_budget: Bytes.

    Raises:
        ValueError: If the engine does not fit the budget.
    """
    dtype = keras.backend.standardize_dtype(inputs.dtype)
    width = {"float16": 2, "bfloat16": 2, "float64": 8}.get(dtype, 4)
    columns = math.prod(inputs.shape[1:])
    result = 3 * width * inputs.shape[0] * outputs * columns
    one = 3 * width * largest
    if engine in ("auto", "while"):
        preferred = "forward" if 4 * columns < outputs else "pfor"
    else:
        preferred = engine
    passes = columns if preferred == "forward" else outputs
    room = memory_budget - result
    on_processor = "cpu" in str(inputs.device).lower()
    at_once = min(passes, (min(room, _FAST_BYTES) if on_processor else room) // one)
    if engine == "while" or (engine == "auto" and at_once < min(2, passes)):
        plan = Plan("while", 1, result + 2 * one)
    else:
        # Parts of equal size.
        at_once = math.ceil(passes / math.ceil(passes / max(at_once, 1)))
        plan = Plan(preferred, at_once, result + at_once * one)
    if plan.bytes > memory_budget:
        raise ValueError(
            f"Engine {plan.engine!r} would need about {plan.bytes:,} bytes. Raise `memory_budget`, "
            "take fewer examples, or ask for what needs no Jacobian: `singular_values` or "
            f"`frobenius_norm`. Received: memory_budget={memory_budget:,}"
        )
    return plan
