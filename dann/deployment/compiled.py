"""Packed programs as shared libraries, made by the C compiler of the machine."""

import ctypes
import hashlib
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from dann.deployment.c_file import source_of
from dann.deployment.runtime import PackedModel, Step, read
from dann.deployment.tracing import PackError

_FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-shared", "-fPIC")


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
    compiler = shlex.split(os.environ.get("CC") or shutil.which("cc") or "")
    if not compiler:
        raise OSError("no C compiler is found (`cc`, or the environment variable CC)")
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = pathlib.Path(home) / "dann"
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
