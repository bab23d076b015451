"""Lists what each label-free score of a run would have chosen, beside the oracle.

python scripts/train.py trainer.oracle_curve=true hydra.run.dir=run
python scripts/evaluate.py run=run

The regret of a score is the best target accuracy of all epochs minus that of the epoch which the
score puts first. The choices are made without target labels; the two columns on the right need
them. A score that the run did not compute is listed too, with the reason.
"""

import os
import signal

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

from dann import config  # noqa: E402


def prepare(cfg):
    from dann.training.evaluate_run import read_curves

    return read_curves(cfg.run)


def work(curves):
    from dann.training.evaluate_run import evaluate_curves, evaluation_table

    print(evaluation_table(evaluate_curves(curves)))


if __name__ == "__main__":
    config.run_script("evaluate", prepare, work)
