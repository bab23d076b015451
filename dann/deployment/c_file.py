"""A classifier as one C file, and such a file as a library of this machine."""

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

from dann.deployment.c_program import TYPES, CProgram, in_rows
from dann.deployment.packing import program_of
from dann.deployment.runtime import PackedModel, Step, outputs_of, read
from dann.deployment.tracing import PackError

_FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-shared", "-fPIC", "-march=native")
_FOLDER = pathlib.Path(__file__).parent


def to_c(classifier: keras.Model, path: str | os.PathLike, name: str = "dann") -> int:
    """Writes a classifier as one C99 file, which needs the standard library alone.

    It has `void dann_predict(const float *input, float *output)`, for one input, and its sizes as
    macros. Weights are constants of one bit, or of 32 where the layer is in full precision. Buffers
    are static, so two threads must not call it at the same time. The top tells the bytes of both,
    and the products with weights.

    The outputs are those of a packed file: the same sums of signs and decisions, and sums of floats
    up to rounding. Compile with `cc -std=c99 -O3`, and `-march=native` for this machine.

    Args:
        classifier: What `dann.deployment.pack` takes, with at most two spatial axes.
        path: Where to write; it replaces a file that is there.
        name: What the function and, in capitals, the macros begin with. Several networks in one
            program need several names, and each its own `cc -c`.

    Returns:
        The size of the file in bytes.

    Raises:
        PackError: If a layer cannot be packed; the error names it.
        ValueError: If the name is none in C.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise ValueError(f"name must be a letter, then letters, digits or _. Received: {name!r}")
    return pathlib.Path(path).write_text(source_of(program_of(classifier), name))


def source_of(steps: Sequence[Step], name: str = "dann") -> str:
    """Returns the C file of a packed program, whose sizes NumPy finds."""
    factor, outputs = _example(steps)
    program = CProgram(steps, [one.shape[1:] for one in outputs])
    expected, body = outputs[-1][0].ravel(), "\n".join(program.lines[1:])
    buffers = [f"static {TYPES[kind]} {one}[{n}];" for one, (kind, n) in program.arrays.items()]
    functions = _called(body)
    return string.Template((_FOLDER / "frame.c").read_text()).substitute(
        {what: f"{count:,}" for what, count in program.counts.items()},
        name=name,
        NAME=name.upper(),
        input_shape=" * ".join(map(str, program.shapes[0])),
        input_range=_input_range(steps[:2][-1]),
        output_shape=" * ".join(map(str, program.shapes[-1])),
        math="#include <math.h>\n" * bool(re.search("expf|tanhf", functions)),
        functions=functions,
        constants="\n".join(program.constants),
        buffers="\n".join(buffers),
        body=textwrap.indent(body, "    "),
        factor=factor,
        expected=textwrap.indent(in_rows([f"{value!s}f" for value in expected[:100]]), "    "),
        tolerance=f"{1e-3 * np.abs(expected).max():.3e}f",
    )


def _called(body):
    """The functions of C that a body calls, and those that they call, each after its name."""
    text = body
    for function in reversed((_FOLDER / "functions.c").read_text().split("\n\n")):
        name = function[len("/* ") : function.index(":")]
        if re.search(rf"\b{name}\(", text):
            text = f"{function.rstrip()}\n\n{text}"
    return text.removesuffix(body)


def _example(steps):
    """The factor in the input of a test, `i * factor % 256` for number `i`, and all outputs.

    A second input, which is larger by a millionth, has the same last outputs: so rounding decides
    no sign of a sum of floats.
    """
    shape, factor, outputs = (2, *steps[0].shape), 37, []
    for factor in range(37, 57):
        one = (np.arange(math.prod(shape[1:])) * factor % 256).astype("float32")
        with np.errstate(all="ignore"):
            batch = np.stack([one, one * np.float32(1.000001)]).reshape(shape)
            outputs = list(outputs_of(steps, batch).values())
        if np.allclose(*outputs[-1], rtol=0, atol=5e-4 * np.abs(outputs[-1]).max()):
            break
    for step, output in zip(steps, outputs, strict=True):
        if output.shape != (2, *step.shape):
            raise ValueError(f"Operation {step.op} of {step.layer!r} contradicts its inputs")
    return factor, outputs


def _input_range(first):
    """Says what the first step, if it is a rescaling, maps to -1 and 1."""
    scale, offset = (first.arrays.get(name, np.zeros(1)) for name in ("scale", "offset"))
    if first.op != "affine" or not np.all(scale):
        return ""
    low, high = (np.mean((end - offset) / scale) for end in (-1, 1))
    return f"; {low:.4g} to {high:.4g} become -1 to 1"


def load(path: str | os.PathLike) -> PackedModel:
    """Loads a packed classifier, whose `predict` runs C.

    The C is compiled once, with `cc` or the compiler in the environment variable `CC`, into the
    user's cache (`XDG_CACHE_HOME`, else `~/.cache`). Without a compiler, and for three spatial
    axes, NumPy runs the file, at a tenth of the speed, and a warning says so.

    Raises:
        FileNotFoundError: If the file is not there.
        ValueError: If it is no packed file, or is of another version, damaged or cut short.
    """
    steps, digest = read(path)
    try:
        return compiled(steps, digest, lambda: source_of(steps))
    except (OSError, PackError) as error:
        warnings.warn(f"NumPy runs {path}, slower than C: {error}", stacklevel=2)
        return PackedModel(steps)


def compiled(steps: Sequence[Step], key: bytes, source: Callable[[], str]) -> PackedModel:
    """Returns the model of a program that C runs, compiled into the user's cache if not there.

    Args:
        steps: The program.
        key: What tells it from all others.
        source: Returns its C; called if it is not in the cache.

    Raises:
        OSError: If there is no compiler, or it fails.
        PackError: If there is no C for a layer.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dann"
    # What wrote the C is part of the name, and the machine: another's processor may not run it.
    writers = b"".join(file.read_bytes() for file in sorted(_FOLDER.glob("[!_.]*.*")))
    content = f"{platform.node()} {compiler} {_FLAGS} ".encode() + key + writers
    library = cache / f"{hashlib.sha256(content).hexdigest()[:32]}.so"
    if not library.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = library.with_suffix(f".{os.getpid()}")
        command = [*compiler, *_FLAGS, "-x", "c", "-", "-o", str(draft), "-lm"]
        done = subprocess.run(command, input=source().encode(), capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").partition("\n")[0]
            raise OSError(f"{shlex.join(compiler)!r} fails with {done.returncode}: {said}")
        draft.replace(library)
    # `PyDLL` keeps Python's lock, because buffers are static.
    predict = ctypes.PyDLL(str(library)).dann_predict
    predict.argtypes, predict.restype = (ctypes.c_void_p, ctypes.c_void_p), None

    def run(batch):
        outputs = np.empty((len(batch), *steps[-1].shape), "float32")
        for one, output in zip(batch, outputs, strict=True):
            predict(one.ctypes.data, output.ctypes.data)
        return outputs

    return PackedModel(steps, run)
