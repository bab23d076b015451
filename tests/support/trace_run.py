"""How often a default run of `scripts/train.py` goes from one file of the package to another.

python tests/support/trace_run.py        files that run a function, and changes between them
python tests/support/trace_run.py 20     also the 20 commonest changes
"""

import collections
import inspect
import pathlib
import runpy
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = str(ROOT / "dann") + "/"


def trace(arguments):
    """The files in which functions are called, in order, each as often as it is entered anew."""
    entered = []

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            is_function = code.co_flags & inspect.CO_OPTIMIZED  # and no body of a class or module
            file = code.co_filename.removeprefix(PACKAGE)
            if is_function and (not entered or entered[-1] != file):
                entered.append(file)

    sys.path.insert(0, str(ROOT / "scripts"))
    sys.argv = ["train.py", *arguments]
    sys.setprofile(note)
    try:
        runpy.run_path(str(ROOT / "scripts/train.py"), run_name="__main__")
    finally:
        sys.setprofile(None)
    return entered


def main():
    most = int(sys.argv[1]) if sys.argv[1:] else 0
    with tempfile.TemporaryDirectory() as folder:
        entered = trace(["debug=fast", f"hydra.run.dir={folder}/run"])
    changes = collections.Counter(zip(entered, entered[1:], strict=False))
    rooms = collections.Counter(file.partition("/")[0] for file in entered)
    print(f"{len(set(entered))} files, {sum(changes.values())} changes")
    print(", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    for pair, count in changes.most_common(most):
        print(f"{count:6} {' -> '.join(pair)}")


if __name__ == "__main__":
    main()
