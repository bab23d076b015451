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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.rivals import prepare_rivals  # noqa: E402

prepare_rivals()  # before TensorFlow is imported

from benchmarks import record  # noqa: E402
from benchmarks.suites import SUITES  # noqa: E402
from benchmarks.timing import table  # noqa: E402
from dann import config  # noqa: E402
from dann.checks import check_choice, check_integer  # noqa: E402
from dann.training.hardware import hardware  # noqa: E402


@config.script("benchmark")
def main(cfg):
    check_choice("suite", cfg.suite, ("all", *SUITES))
    check_integer("processes", cfg.processes, 1)
    # The sections of the others are checked, too, because a wrong key there would go unnoticed.
    built = {name: SUITES[name](**config.instantiate(cfg[name])) for name in SUITES}
    machine = f"{hardware()}, {record.instructions()}"
    print(machine)
    for name in SUITES if cfg.suite == "all" else [cfg.suite]:
        entry, suite = SUITES.entry(name), built[name]
        print(f"\n{entry.name}: {entry.summary}", flush=True)
        several = cfg.processes > 1
        found = record.in_processes(entry.name, cfg.processes) if several else suite.measure()
        print(table(found), flush=True)
        if cfg.record is not None:
            record.write(pathlib.Path(cfg.record), entry.name, found, machine, cfg.processes)


if __name__ == "__main__":
    main()
