r"""Runs experiments over seeds and writes one table of their results.

python scripts/reproduce.py paths.data_dir=...                    three tasks, three methods
python scripts/reproduce.py seeds=[0] 'overrides=["trainer.steps=1000"]' results=short.csv
python scripts/reproduce.py jobs=2 paths.data_dir=...             two processes at a time
python scripts/reproduce.py 'methods=[cdan,"mdd schedule=mdd"]'   with arguments of a method's own

A run has a directory of its own, <runs_dir>/<experiment>/<method>/seed_<seed>. If it is finished
with the same settings, it is not repeated. So after an interruption the same command continues. The
table is written anew from the finished runs that the command names.
"""

import os
import pathlib
import signal
import sys

import environment  # noqa: F401
from hydra import compose

from dann.config.runs import collect_settings, load_run_config
from dann.config.script import script
from dann.experiments.reproduction import plan_runs, train_runs
from dann.experiments.results import collect_results, format_results
from dann.experiments.sweep import rank_sweep
from dann.training.run_directory import quote

TRAIN = pathlib.Path(__file__).with_name("train.py")


def is_finished(run):
    """Whether a run has ended, with the settings that it is planned with."""
    planned = compose("train", list(run.arguments))  # first: what cannot be composed is told now
    if not run.directory.is_finished():
        return False
    made = load_run_config(run.directory.path)
    return collect_settings(made) == collect_settings(planned)


@script("reproduce")
def main(cfg):
    runs = plan_runs(cfg)
    missing = [run for run in runs if not is_finished(run)]
    paths = {key: cfg.paths[key] for key in ("data_dir", "cache_dir")}
    shared = [f"paths.{key}={quote(path)}" for key, path in paths.items() if path is not None]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # which ends the runs in progress
    failed = train_runs(missing, TRAIN, shared, cfg.jobs)
    finished = [run for run in runs if is_finished(run)]
    results = collect_results(finished)
    path = pathlib.Path(cfg.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    results.to_csv(path, index=False)
    path.with_suffix(".md").write_text(format_results(results, cfg.published))
    for experiment in cfg.experiments:
        folder = pathlib.Path(cfg.runs_dir) / experiment
        own = [run for run in finished if run.experiment == experiment]
        overrides = {os.path.relpath(run.directory.path, folder): run.arguments for run in own}
        ranked = rank_sweep(folder, "agreement", overrides) if overrides else None
        print(f"{experiment}: {ranked or 'not ranked'}")
    print(f"Written to {path} and {path.with_suffix('.md')}")
    for run in failed:
        log = run.directory.log_file
        last = log.read_text().strip().rpartition("\n")[2]
        print(f"error: {log} ends: {last}", file=sys.stderr)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
