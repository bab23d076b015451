"""Compares the speed of this package with other libraries.

python benchmarks/run.py suite=step               training steps, against other libraries
python benchmarks/run.py suite=run                complete runs and short commands
python benchmarks/run.py suite=run before=<dir>   the same, against another checkout
python benchmarks/run.py suite=input              training pairs from folders of JPEGs
python benchmarks/run.py suite=packed             binary networks, against LiteRT
python benchmarks/run.py suite=nuisance           accuracy and leakage, against fairlearn
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.rivals import prepare_rivals  # noqa: E402

prepare_rivals()  # before TensorFlow is imported

from benchmarks.suites import SUITES  # noqa: E402
from benchmarks.timing import format_table  # noqa: E402
from dann.checks import check_choice  # noqa: E402
from dann.config.script import script  # noqa: E402
from dann.training.devices import describe_hardware  # noqa: E402


@script("benchmark")
def main(cfg):
    suite = SUITES[check_choice("suite", cfg.suite, SUITES)]
    print(f"{describe_hardware()}\n", flush=True)
    print(format_table(suite(cfg)))


if __name__ == "__main__":
    main()
