"""Measures speeds, each program in turns with its rivals.

python benchmarks/run.py suite=jacobian           Jacobians, beside a tape's own
python benchmarks/run.py suite=input              training pairs from folders of JPEGs
python benchmarks/run.py suite=packed             binary layers and networks
python benchmarks/run.py suite=diagnostics        certificate, conflict, game and sharpness
python benchmarks/run.py suite=all                one after the other
python benchmarks/run.py input.image_size=64      other values
"""

import os
import signal

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

from dann import config  # noqa: E402


def prepare(cfg):
    from benchmarks.suites import SUITES

    if cfg.suite not in ("all", *SUITES):
        choices = ", ".join(["all", *SUITES])
        raise config.ConfigError(f"suite must be one of {choices}. Received: {cfg.suite}")
    # The sections of the others are checked, too, because a wrong key there would go unnoticed.
    built = {name: SUITES[name](**config.instantiate(cfg[name], "network")) for name in SUITES}
    names = list(SUITES) if cfg.suite == "all" else [cfg.suite]
    return [(SUITES.entry(name), built[name]) for name in names]


def work(suites):
    from benchmarks.timing import table
    from dann.training.hardware import hardware

    print(hardware())
    for entry, suite in suites:
        print(f"\n{entry.name}: {entry.summary}")
        print(table(suite.measure()))


if __name__ == "__main__":
    config.run_script("benchmark", prepare, work)
