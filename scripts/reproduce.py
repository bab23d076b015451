r"""Runs experiments over seeds and writes their table.

python scripts/reproduce.py paths.data_dir=...                    what docs/results.md shows
python scripts/reproduce.py seeds=[0] 'overrides=["trainer.steps=1000"]' results=short.csv
python scripts/reproduce.py page=own results=mine.csv experiments=[mine] 'page.title="My runs"'
KERAS_BACKEND=jax python scripts/reproduce.py page=gpu paths.data_dir=...   docs/results-gpu.md
python scripts/reproduce.py jobs=2 paths.data_dir=...             two processes at a time
python scripts/reproduce.py 'methods=[cdan,"mdd schedule=mdd"]'   with arguments of a method's own
python scripts/reproduce.py 'methods=["dirt_t method.teacher=<runs>/seed_\${seed}"]'  a second stage

A run is not repeated if the table has it, or its directory is finished, with the same settings. So
after an interruption the same command continues where it stopped.
"""

import pathlib
import sys

import environment  # noqa: F401

from dann import config
from dann.experiments.processes import ended_by_interruption
from dann.experiments.reproduction import Reproduction

TRAIN = pathlib.Path(__file__).with_name("train.py")


@config.script("reproduce")
def main(cfg):
    reproduction = Reproduction(cfg, TRAIN, config.digest_of_command, config.digest_of_run)
    with ended_by_interruption():
        failed = reproduction.run()
    if failed:
        sys.exit(f"error: failed, see log.txt of each: {', '.join(failed)}")


if __name__ == "__main__":
    main()
