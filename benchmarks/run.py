"""Measures speeds, each program in turns with its rivals.

python benchmarks/run.py suite=step               training steps, beside other libraries
python benchmarks/run.py suite=profile            where the time of a step goes
python benchmarks/run.py suite=onednn             steps with oneDNN's kernels and without them
python benchmarks/run.py suite=startup            commands that only look, or are refused
python benchmarks/run.py suite=run                whole runs, perhaps of two checkouts
python benchmarks/run.py suite=jacobian           Jacobians, beside a tape's own
python benchmarks/run.py suite=input              training pairs from folders of JPEGs
python benchmarks/run.py suite=selection          label-free scores of many examples
python benchmarks/run.py suite=packed             binary layers and networks
python benchmarks/run.py suite=diagnostics        certificate, conflict, game and sharpness
python benchmarks/run.py suite=growth             how time grows with batch, data, network, devices
python benchmarks/run.py suite=all                one after the other
python benchmarks/run.py input.image_size=64      other values
python benchmarks/run.py processes=3 record=docs/performance.json
                                                  in 3 processes, and kept for docs/performance.md
"""

import os
import pathlib
import signal

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

from benchmarks.rivals import prepare_rivals  # noqa: E402
from dann import config  # noqa: E402


def prepare(cfg):
    from benchmarks.suites import SUITES
    from dann.checks import check_integer

    if cfg.suite not in ("all", *SUITES):
        choices = ", ".join(["all", *SUITES])
        raise config.ConfigError(f"suite must be one of {choices}. Received: {cfg.suite}")
    # The sections of the others are checked, too, because a wrong key there would go unnoticed.
    built = {name: SUITES[name](**config.instantiate(cfg[name], "network")) for name in SUITES}
    names = list(SUITES) if cfg.suite == "all" else [cfg.suite]
    check_integer("processes", cfg.processes, 1)
    if cfg.record is not None and not pathlib.Path(cfg.record).absolute().parent.is_dir():
        raise config.ConfigError(f"record must be in a folder that exists. Received: {cfg.record}")
    return [(SUITES.entry(name), built[name]) for name in names], cfg.processes, cfg.record


def work(asked):
    from benchmarks import record
    from benchmarks.timing import table
    from dann.training.hardware import hardware

    suites, processes, place = asked
    machine = f"{hardware()}, {record.instructions()}"
    print(machine)
    for entry, suite in suites:
        print(f"\n{entry.name}: {entry.summary}", flush=True)
        found = suite.measure() if processes == 1 else record.in_processes(entry.name, processes)
        print(table(found), flush=True)
        if place is not None:
            record.write(pathlib.Path(place), entry.name, found, machine, processes)


if __name__ == "__main__":
    prepare_rivals()
    config.run_script("benchmark", prepare, work)
