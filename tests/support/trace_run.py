"""How often a default run of `scripts/train.py` goes from one file of the package to another.

`python tests/support/trace_run.py` prints how many files run a function, how many changes there are
between them, and the 20 commonest. Arguments are passed on, such as `debug=fast`.
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
    with tempfile.TemporaryDirectory() as folder:
        entered = trace([f"hydra.run.dir={folder}/run", *sys.argv[1:]])
    changes = collections.Counter(zip(entered, entered[1:], strict=False))
    print(f"{len(set(entered))} files, {sum(changes.values())} changes")
    for pair, count in changes.most_common(20):
        print(f"{count:6} {' -> '.join(pair)}")


if __name__ == "__main__":
    main()
