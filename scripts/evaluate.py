"""Lists what each label-free score of a run would have chosen, beside the oracle.

python scripts/train.py trainer.oracle_curve=true hydra.run.dir=run
python scripts/evaluate.py run=run

The regret of a score is the best target accuracy of all epochs minus that of the epoch which the
score puts first. The choices are made without target labels; the two columns on the right need
them. A score that the run did not compute is listed too, with the reason.
"""

import environment  # noqa: F401

from dann import config
from dann.training.evaluate_run import evaluate_run, evaluation_table


@config.script("evaluate")
def main(cfg):
    print(evaluation_table(evaluate_run(cfg.run)))


if __name__ == "__main__":
    main()
