"""Searches for settings by a score that needs no target labels, with Optuna.

python scripts/optimize.py trials=20
python scripts/optimize.py 'space=["schedule.high=interval(.1,1)","method=dann,cdan"]'
python scripts/optimize.py objective=snd 'overrides=["experiment=mnist_to_usps"]' directory=usps

Needs `pip install -e ".[optuna]"`. The same command continues where it was stopped.
"""

import importlib.util
import os
import pathlib
import signal
import sys

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

from dann import config  # noqa: E402

TRAIN = pathlib.Path(__file__).with_name("train.py")


def prepare(cfg):
    if importlib.util.find_spec("optuna") is None:
        raise config.ConfigError("The search needs Optuna: pip install 'dann[optuna]'")
    from dann.experiments.study import Study

    space = config.search_space(cfg.space)
    return Study(cfg, space, TRAIN, config.scores_of_trials(cfg.overrides, space))


def work(study):
    from dann.experiments.processes import ended_by_interruption

    with ended_by_interruption():
        table = study.run()
    if table is None:
        sys.exit("error: no trial reached a score, see log.txt of each")
    print(f"{table}\nWritten to {study.directory / 'optimize.csv'}")


if __name__ == "__main__":
    config.run_script("optimize", prepare, work)
