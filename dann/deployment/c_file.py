"""A classifier as one C file."""

import math
import os
import pathlib
import re
import string
from collections.abc import Sequence

import keras

from dann.deployment.c_program import TYPES, CProgram
from dann.deployment.packing import program_of
from dann.deployment.runtime import Step

_TEMPLATE = pathlib.Path(__file__).with_name("template.c")


def to_c(classifier: keras.Model, path: str | os.PathLike) -> int:
    """Writes a classifier as one C99 file, which needs the standard library alone.

    It has `void dann_predict(const float *input, float *output)`, for one input, and its sizes as
    macros. Weights are constants of one bit, or of 32 where the layer is in full precision. Buffers
    are static, so two threads must not call it at the same time. The bytes of both stand at the
    top.

    The outputs are those of a packed file: the same sums of signs and decisions, and sums of floats
    up to rounding. Compile with `cc -std=c99 -O3`, and `-march=native` for this machine.

    Args:
        classifier: What `dann.deployment.pack` takes, with at most two spatial axes.
        path: Where to write; it replaces a file that is there.

    Returns:
        The size of the file in bytes.

    Raises:
        PackError: If a layer cannot be packed; the error names it.
        TypeError: If `classifier` is not a Keras model.
    """
    return pathlib.Path(path).write_text(source_of(program_of(classifier)))


def source_of(steps: Sequence[Step]) -> str:
    """Returns the C file of a packed program."""
    program = CProgram(steps)
    arrays = program.arrays.items()
    body = "\n".join(program.lines).lstrip("\n")
    head, *functions, tail = re.split(
        r"\n\n(?=/\* |static|typedef|\$constants)", _TEMPLATE.read_text()
    )
    return string.Template("\n\n".join([head, *_called(functions, body), tail])).substitute(
        input_shape=" x ".join(map(str, program.shapes[0])),
        output_shape=" x ".join(map(str, program.shapes[-1])),
        input_size=math.prod(program.shapes[0]),
        output_size=math.prod(program.shapes[-1]),
        flash=f"{program.constants.bytes:,}",
        ram=f"{sum(4 * size for _, (_, size) in arrays):,}",
        products_of_signs=f"{program.macs['bits']:,}",
        products_of_numbers=f"{program.macs['float']:,}",
        constants="\n".join(program.constants.lines),
        buffers="\n".join(f"static {TYPES[kind]} {name}[{n}];" for name, (kind, n) in arrays),
        body=body,
    )


def _called(functions, body):
    """The functions, in their order, that are called in the body, or by one that is."""
    kept: list[str] = []
    for text in reversed(functions):
        name = re.findall(r"^static .*?(\w+)\(|^} (\w+);", text, flags=re.MULTILINE)[0]
        if re.search(rf"\b{''.join(name)}\b", "\n".join([body, *kept])):
            kept.insert(0, text)
    return kept
