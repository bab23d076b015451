"""Trains a network on labeled source data and unlabeled target data.

python scripts/train.py                                    the default, in about a minute
python scripts/train.py method=source_only                 a different method
python scripts/train.py -m method=dann,cdan seed=0,1       a sweep, ranked without target labels
python scripts/train.py trainer.epochs=20                  20 passes over the source
python scripts/train.py resume=true                        resumes the newest unfinished run
python scripts/train.py hydra.run.dir=x resume=true        starts, or resumes after a stop
python scripts/train.py hydra.run.dir=x overwrite=true     starts again, deleting a finished run
python scripts/train.py experiment=mnist_to_mnist_m paths.data_dir=...
python scripts/train.py --help                             every group and key
"""

import os
import shlex
import sys
import tempfile

import environment  # noqa: F401
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from dann.config.script import format_command, script

SOURCE_ONLY = {"_target_": "dann.SourceOnly", "_partial_": True}


@script("train")
def main(cfg):
    from dann.config import building, runs
    from dann.training.devices import Distribution, get_process_position
    from dann.training.preparation import compile_model, start
    from dann.training.run import train_run
    from dann.training.run_directory import RunDirectory

    distribution = Distribution(**cfg.distribution)
    distribution.connect()
    if get_process_position()[0] != 0:  # process 0 writes the run
        temporary_directory = tempfile.TemporaryDirectory()
        cfg.paths.run_dir = temporary_directory.name
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if distribution.kind != "multi_host":
        selected = runs.find_run(cfg)
        if selected.is_done:
            print(f"Already finished: {selected.directory}")
            return
        if str(selected.directory.path) != cfg.paths.run_dir:
            print(f"Resumes {selected.directory}")
            cfg.paths.run_dir = str(selected.directory.path)
        if cfg.resume and selected.directory.has_checkpoints():
            for key, steps in runs.keep_schedules(cfg, selected.directory.path).items():
                print(f"Resumes with {key}={steps}, as the run began")
    start(cfg.seed, cfg.trainer.precision)
    domains = building.build_domains(cfg)
    building.count_steps(cfg, domains)
    intervals = runs.get_step_intervals(cfg)

    def build(method, is_baseline=False):
        # Each method starts from the same initial weights.
        start(cfg.seed, cfg.trainer.precision, distribution)
        with distribution.scope():
            model = building.build_model(cfg, method, domains, is_baseline)
            optimizer = building.build_optimizer(cfg, model)
            return compile_model(model, optimizer, cfg.trainer, intervals)

    model = build(cfg.method)
    baseline = None
    adapts = model.terms or model.regularizers or domains.nuisances
    # A second stage continues a trained model, so a baseline would not be comparable.
    if cfg.compare and adapts and "teacher" not in cfg.method:
        baseline_method = {**cfg.method, "strength": 0.0} if domains.nuisances else SOURCE_ONLY
        baseline = runs.find_shared_baseline(cfg) or build(baseline_method, is_baseline=True)
    row = train_run(
        cfg.paths.run_dir,
        domains,
        cfg.trainer,
        cfg.seed,
        model,
        baseline,
        callbacks=building.build_callbacks(cfg, model),
        selection=cfg.selection,
        resume=cfg.resume,
        overwrite=cfg.overwrite,
        config=runs.serialize_config(cfg),
        name="+".join([HydraConfig.get().runtime.choices["method"], *cfg.regularizers]),
    )
    if HydraConfig.get().mode == RunMode.RUN:
        print_next_steps(RunDirectory(cfg.paths.run_dir), domains, row)


def print_next_steps(run, domains, row):
    """Prints the recommended network of a finished run, and the commands that read the run."""
    from dann.training.overrides import format_argument
    from dann.training.report import recommend_classifier

    if "source_only/probe/low" in row:
        print(recommend_classifier(row, domains))
    argument = format_argument("run", run)
    print(f"Next: {format_command('evaluate' if domains.nuisances else 'diagnose')} {argument}")
    if domains.target_test[1] is None and not domains.nuisances and not domains.is_regression:
        count = min(50, len(domains.target_train) + len(domains.target_test[0]))
        print(f"      {format_command('evaluate')} {argument} label={count}")
    if run.tensorboard.is_dir():
        print(f"      tensorboard --logdir {shlex.quote(f'{run}/{run.tensorboard.name}')}")


if __name__ == "__main__":
    main()
