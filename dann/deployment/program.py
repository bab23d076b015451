"""The program of a packed file: steps one after the other, and their arrays."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# The types of the arrays that each operation may hold, by name.
OPERATIONS: Mapping[str, Mapping[str, str]] = {
    "input": {},
    "affine": {"scale": "<f4", "offset": "<f4"},
    "activation": {},
    "prelu": {"slopes": "<f4"},
    "dense": {"kernel": "<f4", "kernel_bits": "<u8", "bias": "<f4"},
    "conv": {"kernel": "<f4", "kernel_bits": "<u8", "bias": "<f4"},
    "binary_dense": {"kernel_bits": "<u8"},
    "binary_conv": {"kernel_bits": "<u8"},
    "sign": {},
    "threshold": {"thresholds": "<i4", "flips": "<u8"},
    "signs": {},
    "max_pool": {},
    "average_pool": {},
    "reshape": {},
    "add": {},
}
KINDS = ("float", "int", "bits")


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation of a packed program.

    Args:
        op: One of `OPERATIONS`.
        layer: Name of the Keras layer that it comes from.
        inputs: Numbers of the steps whose outputs it takes.
        shape: Shape of its output, without the batch.
        kind: Type of its output: `"float"` (float32), `"int"` (int32 sums of signs) or `"bits"`
            (signs, packed along the last axis).
        attributes: Its settings: numbers, strings and lists of them.
        arrays: Its arrays by name.
    """

    op: str
    layer: str
    inputs: Sequence[int]
    shape: Sequence[int]
    kind: str
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.op not in OPERATIONS:
            raise ValueError(
                f"Expected one of the operations {', '.join(OPERATIONS)}. Received: {self.op!r}"
            )
        if self.kind not in KINDS:
            raise ValueError(f"A step gives one of {', '.join(KINDS)}. Received: {self.kind!r}")
        for name, array in self.arrays.items():
            expected = OPERATIONS[self.op].get(name)
            if expected is None or array.dtype != np.dtype(expected):
                raise ValueError(
                    f"Operation `{self.op}` takes arrays {dict(OPERATIONS[self.op])}. Received: "
                    f"{name} of {array.dtype.str}"
                )

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps, each after its inputs; the last gives the logits.

    Args:
        steps: The steps; the first is the input.

    Raises:
        ValueError: If a step needs one that comes later.
    """

    steps: Sequence[Step]

    def __post_init__(self):
        if not self.steps or self.steps[0].op != "input":
            raise ValueError("A program begins with its input. Received: none")
        for number, step in enumerate(self.steps):
            if bool(number) != bool(step.inputs) or any(not 0 <= i < number for i in step.inputs):
                raise ValueError(
                    "A step takes the outputs of steps before it. Received: step "
                    f"{number}, `{step.layer}`, of {list(step.inputs)}"
                )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.steps[0].shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the logits of one input."""
        return tuple(self.steps[-1].shape)
