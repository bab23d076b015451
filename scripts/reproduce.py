r"""Trains experiments over seeds and writes one table of their results.

python scripts/reproduce.py paths.data_dir=...                    three tasks, three methods
python scripts/reproduce.py seeds=[0] 'overrides=["trainer.steps=1000"]' results=short.csv
python scripts/reproduce.py jobs=2 paths.data_dir=...             two processes at a time
python scripts/reproduce.py 'methods=[cdan,"mdd schedule=mdd"]'   with arguments for one method

Each run has its own directory, <runs_dir>/<experiment>/<method>/seed_<seed>. A run that is finished
with the same settings is not repeated, so after an interruption the same command continues. The
table is replaced by the results of the finished runs that the command names.
"""

import os
import pathlib
import signal
import sys

import environment  # noqa: F401
from hydra import compose

from dann.config.script import script

TRAIN = pathlib.Path(__file__).with_name("train.py")


@script("reproduce")
def main(cfg):
    from dann.config.ranking import prepare_distillation
    from dann.config.runs import collect_settings, load_run_config
    from dann.experiments.reproduction import collect_results, plan_runs, train_runs
    from dann.experiments.sweep import rank_sweep
    from dann.training.overrides import quote

    runs = plan_runs(cfg)
    # All arguments are composed before the first run, so that a mistake ends the script now.
    settings = [collect_settings(compose("train", list(run.arguments))) for run in runs]

    def select_finished_runs():
        return [
            run
            for run, planned_settings in zip(runs, settings, strict=True)
            if run.directory.is_finished()
            and collect_settings(load_run_config(run.directory.path)) == planned_settings
        ]

    finished_runs = select_finished_runs()
    missing_runs = [run for run in runs if run not in finished_runs]
    paths = {key: cfg.paths[key] for key in ("data_dir", "cache_dir")}
    shared_arguments = [
        f"paths.{key}={quote(path)}" for key, path in paths.items() if path is not None
    ]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # an exception ends the training runs
    failed_runs = train_runs(missing_runs, TRAIN, shared_arguments, cfg.jobs)
    finished_runs = select_finished_runs()
    results = collect_results(finished_runs)
    path = pathlib.Path(cfg.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    results.to_csv(path, index=False)
    for experiment in cfg.experiments:
        folder = pathlib.Path(cfg.runs_dir) / experiment
        overrides = {
            os.path.relpath(run.directory.path, folder): run.arguments
            for run in finished_runs
            if run.experiment == experiment
        }
        ranking = None
        if overrides:
            ranking = rank_sweep(folder, "agreement", overrides, prepare_distillation)
        print(f"{experiment}: {ranking or 'not ranked'}")
    print(f"Written to {path}")
    for run in failed_runs:
        log = run.directory.log_file
        last_line = log.read_text().strip().rpartition("\n")[2]
        print(f"error: {log} ends: {last_line}", file=sys.stderr)
    if failed_runs:
        sys.exit(1)


if __name__ == "__main__":
    main()
