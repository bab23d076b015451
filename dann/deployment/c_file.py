"""A classifier as one C file, and such a file as a library of this machine."""

import ctypes
import hashlib
import math
import os
import pathlib
import platform
import shlex
import string
import subprocess
import textwrap
import warnings
from collections.abc import Callable, Sequence

import keras
import numpy as np

from dann.deployment.c_program import TYPES, CProgram
from dann.deployment.packing import program_of
from dann.deployment.runtime import PackedModel, Step, read
from dann.deployment.tracing import PackError

_FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-shared", "-fPIC")
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
    """
    return pathlib.Path(path).write_text(source_of(program_of(classifier)))


def source_of(steps: Sequence[Step]) -> str:
    """Returns the C file of a packed program."""
    program = CProgram(steps)
    arrays = program.arrays.items()
    return string.Template(_TEMPLATE.read_text()).substitute(
        input_shape=" x ".join(map(str, program.shapes[0])),
        output_shape=" x ".join(map(str, program.shapes[-1])),
        input_size=math.prod(program.shapes[0]),
        output_size=math.prod(program.shapes[-1]),
        flash=f"{program.constants.bytes:,}",
        ram=f"{sum(4 * size for _, (_, size) in arrays):,}",
        constants="\n".join(program.constants.lines),
        buffers="\n".join(f"static {TYPES[kind]} {name}[{n}];" for name, (kind, n) in arrays),
        body=textwrap.indent("\n".join(program.lines[1:]), "    "),
    )


def load(path: str | os.PathLike) -> PackedModel:
    """Loads a packed classifier, whose `predict` runs C.

    The C is compiled once, with `cc` or the compiler in the environment variable `CC`, into the
    user's cache (`XDG_CACHE_HOME`, else `~/.cache`). Without a compiler, and for three spatial
    axes, NumPy runs the file, at a tenth of the speed, and a warning says so.

    Raises:
        FileNotFoundError: If the file is not there.
        PackedFileError: If it is no packed file, or is of another version, damaged or cut short.
    """
    steps = read(path)
    try:
        return PackedModel(steps, run_by_c(steps))
    except (OSError, PackError, subprocess.CalledProcessError) as error:
        warnings.warn(f"NumPy runs {path}, slower than C: {error}", stacklevel=2)
        return PackedModel(steps)


def run_by_c(steps: Sequence[Step]) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function of a program from a batch to its logits, compiled."""
    # `PyDLL` keeps Python's lock, because buffers are static.
    predict = ctypes.PyDLL(str(compile_library(source_of(steps)))).dann_predict
    predict.argtypes, predict.restype = (ctypes.c_void_p, ctypes.c_void_p), None

    def run(batch):
        outputs = np.empty((len(batch), *steps[-1].shape), "float32")
        for one, output in zip(batch, outputs, strict=True):
            predict(one.ctypes.data, output.ctypes.data)
        return outputs

    return run


def compile_library(source: str) -> pathlib.Path:
    """Compiles C into the user's cache, unless it is there, and returns the library's path.

    Raises:
        OSError: If there is no compiler.
        subprocess.CalledProcessError: If it fails.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    cache = pathlib.Path(home).expanduser() / "dann"
    # A library for another machine's processor would not run, so its name is part of the key.
    key = hashlib.sha256(f"{platform.node()} {compiler} {source}".encode()).hexdigest()[:32]
    library = cache / f"{key}.so"
    if not library.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = cache / f"{key}.{os.getpid()}"
        command = [*compiler, *_FLAGS, "-march=native", "-x", "c", "-", "-o", str(draft), "-lm"]
        subprocess.run(command, input=source.encode(), check=True, capture_output=True)
        draft.replace(library)
    return library
