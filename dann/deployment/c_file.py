"""Writes a classifier as a C file, and compiles C files to libraries for this machine."""

import ctypes
import hashlib
import math
import os
import pathlib
import platform
import re
import shlex
import string
import subprocess
import textwrap
import warnings
from collections.abc import Callable, Sequence

import keras
import numpy as np

from dann.deployment.c_constants import format_rows
from dann.deployment.c_program import TYPES, CProgram
from dann.deployment.packing import build_program
from dann.deployment.runtime import PackedModel, Step, compute_outputs, read
from dann.deployment.tracing import PackError

_FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-shared", "-fPIC", "-march=native")
# Consecutive parts of one C file.
_FRAMES = ("frame_windows.c", "frame_values.c", "frame_predict.c")
# Part of the names of cached libraries and of the macro that guards the C functions. Increase it
# with every change of the generated C code.
C_VERSION = 6


def to_c(classifier: keras.Model, path: str | os.PathLike, name: str = "dann") -> int:
    """Writes a classifier as one C99 file that needs only the C standard library.

    The file defines `void dann_predict(const float *input, float *output)`, for one input, and
    macros for the sizes of both. It compiles as C and as C++; other files include it as a header
    after `#define DANN_HEADER`. Weights are constants of 1 bit, or of 32 bits where a layer is in
    full precision. Buffers are static, so two threads must not call the function at the same time.
    The comment at the top of the file states the bytes of constants and buffers.

    A packed file computes the same outputs: sums of signs and decisions are equal, and sums of
    floats are equal up to rounding. Compile with `cc -std=c99 -O3`, and with `-march=native` for
    this machine.

    Args:
        classifier: Model with one input of at most two spatial axes and one output, in float32, or
            a method of `dann.adaptation`, whose `classifier` is written.
        path: Path of the file. An existing file is replaced.
        name: Prefix of the function and, in capitals, of the macros. To use several networks in one
            program, give each its own name.

    Returns:
        The size of the file in bytes.

    Raises:
        PackError: If a layer cannot be packed, which the error names, or a weight is not finite.
        TypeError: If `name` is not text.
        ValueError: If `name` is not an identifier in C.
    """
    if not isinstance(name, str):
        raise TypeError(f"Expected `name` to be text. Received: {name!r}")
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise ValueError(
            f"Expected `name` to be a letter followed by letters, digits or _. Received: {name!r}"
        )
    steps = build_program(classifier)
    if not all(np.isfinite(array).all() for step in steps for array in step.arrays.values()):
        raise PackError("Expected finite weights. Received: NaN or infinity")
    return pathlib.Path(path).write_text(generate_c(steps, name))


def generate_c(steps: Sequence[Step], name: str = "dann") -> str:
    """Returns the C file of a packed program, with a test of its outputs on an example."""
    factor, outputs = _make_example(steps)
    program = CProgram(steps, [output.shape[1:] for output in outputs])
    expected = outputs[-1][0].ravel()
    buffers = [f"static {TYPES[k]} {buffer}[{n}];" for buffer, (k, n) in program.buffers.items()]
    # Constants and buffers are local, so that they cannot conflict with those of other networks.
    body = "\n".join([*program.constants.lines, *buffers, *program.lines])
    frame = "".join((pathlib.Path(__file__).parent / file).read_text() for file in _FRAMES)
    return string.Template(frame).substitute(
        version=C_VERSION,
        flash=f"{program.constants.num_bytes:,}",
        ram=f"{4 * sum(size for _, size in program.buffers.values()):,}",
        name=name,
        NAME=name.upper(),
        input_shape=" * ".join(map(str, program.shapes[0])),
        output_shape=" * ".join(map(str, program.shapes[-1])),
        body=textwrap.indent(body, "    "),
        factor=factor,
        expected=textwrap.indent(format_rows([f"{value!s}f" for value in expected[:100]]), "    "),
        tolerance=f"{1e-3 * np.abs(expected).max():.3e}f",
    )


def _make_example(steps):
    """Returns an example for the test in the C file, and the outputs of all steps.

    Number `i` of the input is `i * factor % 256`. The factor is chosen so that a second input,
    larger by one millionth, has the same last outputs. Then no sign depends on how a sum of floats
    is rounded.

    Returns:
        The factor, and the outputs of both inputs by step.
    """
    shape, factor, outputs = (2, *steps[0].shape), 37, []
    for factor in range(37, 57):
        example = (np.arange(math.prod(shape[1:])) * factor % 256).astype("float32")
        with np.errstate(all="ignore"):
            batch = np.stack([example, example * np.float32(1.000001)]).reshape(shape)
            outputs = list(compute_outputs(steps, batch).values())
        if np.allclose(*outputs[-1], rtol=0, atol=5e-4 * np.abs(outputs[-1]).max()):
            break
    shapes, declared = [output.shape for output in outputs], [(2, *step.shape) for step in steps]
    if shapes != declared:
        raise ValueError(f"Expected outputs of the shapes {declared}. Received: {shapes}")
    return factor, outputs


def load(path: str | os.PathLike) -> PackedModel:
    """Loads a packed classifier whose `predict` runs compiled C.

    The C code is compiled once, with `cc` or the compiler in the environment variable `CC`, and the
    library is cached (in `XDG_CACHE_HOME`, by default `~/.cache`). Without a compiler, and for
    networks with three spatial axes, the model runs in NumPy, about ten times slower, with a
    warning.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not a packed file, has another version, is damaged or truncated,
            or contains an invalid program.
    """
    steps, digest = read(path)
    try:
        return compile_program(steps, digest, lambda: generate_c(steps))
    except (OSError, PackError) as error:
        warnings.warn(f"NumPy runs {path}, more slowly than C: {error}", stacklevel=2)
        return PackedModel(steps)
    except Exception as error:  # an inconsistent program can raise any error
        raise ValueError(
            f"Expected a valid program. Received: {path} with {error!r}. Pack the classifier again"
        ) from error


def compile_program(steps: Sequence[Step], key: bytes, generate: Callable[[], str]) -> PackedModel:
    """Returns the model of a program that runs compiled C, from the user's cache if possible.

    Args:
        steps: The program.
        key: Bytes that identify the program.
        generate: Returns the C source of the program. It is called if the cache lacks the library.

    Raises:
        OSError: If there is no compiler, or it fails.
        PackError: If C does not support a layer.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dann"
    # The host is part of the key, because -march=native depends on its processor.
    content = f"{C_VERSION} {platform.node()} {compiler} {_FLAGS} ".encode() + key
    library = cache / f"{hashlib.sha256(content).hexdigest()[:32]}.so"
    if not library.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = library.with_suffix(f".{os.getpid()}")
        command = [*compiler, *_FLAGS, "-x", "c", "-", "-o", str(draft), "-lm"]
        source = generate().encode()
        result = subprocess.run(command, input=source, capture_output=True, check=False)
        if result.returncode:
            message = result.stderr.decode(errors="replace").partition("\n")[0]
            raise OSError(f"{shlex.join(compiler)!r} fails with {result.returncode}: {message}")
        draft.replace(library)
    # `PyDLL` keeps Python's lock during a call, because the buffers are static.
    predict = ctypes.PyDLL(str(library)).dann_predict
    predict.argtypes, predict.restype = (ctypes.c_void_p, ctypes.c_void_p), None

    def run(batch):
        outputs = np.empty((len(batch), *steps[-1].shape), "float32")
        for example, output in zip(batch, outputs, strict=True):
            predict(example.ctypes.data, output.ctypes.data)
        return outputs

    return PackedModel(steps, run)
