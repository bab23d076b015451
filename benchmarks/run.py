"""Measures speeds, each program in turns with its rivals.

python benchmarks/run.py suite=step               training steps, beside other libraries
python benchmarks/run.py suite=run                whole runs and short commands
python benchmarks/run.py suite=run before=<dir>   the same in turns with another checkout
python benchmarks/run.py suite=input              training pairs from folders of JPEGs
python benchmarks/run.py suite=jacobian           Jacobians, beside a tape's own
python benchmarks/run.py suite=packed             binary networks, beside LiteRT
python benchmarks/run.py suite=nuisance           accuracy and leakage, beside fairlearn
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.rivals import prepare_rivals  # noqa: E402

prepare_rivals()  # before TensorFlow is imported

from benchmarks.suites import SUITES  # noqa: E402
from benchmarks.timing import table  # noqa: E402
from dann.checks import check_choice  # noqa: E402
from dann.config.script import script  # noqa: E402
from dann.training.devices import describe_hardware  # noqa: E402


@script("benchmark")
def main(cfg):
    suite = SUITES[check_choice("suite", cfg.suite, SUITES)]
    print(f"{describe_hardware()}\n", flush=True)
    print(table(suite(cfg)))


if __name__ == "__main__":
    main()
