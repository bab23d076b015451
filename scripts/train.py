"""Trains a network on labelled source data and unlabelled target data.

python scripts/train.py                                    the default, in about a minute
python scripts/train.py method=source_only                 another method
python scripts/train.py -m method=dann,cdan seed=0,1       a sweep, ranked without target labels
python scripts/train.py trainer.epochs=20                   20 passes over the source
python scripts/train.py resume=true                         goes on with the newest unfinished run
python scripts/train.py hydra.run.dir=x resume=true         starts, or resumes after a stop
python scripts/train.py experiment=mnist_to_mnist_m paths.data_dir=...
python scripts/train.py --help                             every group and key
"""

import os
import pathlib
import shlex
import sys
import tempfile

import environment  # noqa: F401
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from dann import training
from dann.config import building, runs
from dann.config.script import script
from dann.training.devices import get_process_position
from dann.training.run_directory import format_argument

SOURCE_ONLY = {"_target_": "dann.SourceOnly", "_partial_": True}
HERE = pathlib.Path(__file__).parent


@script("train")
def main(cfg):
    distribution = training.Distribution(**cfg.distribution)
    distribution.connect()
    if get_process_position()[0] != 0:  # process 0 writes the run
        aside = tempfile.TemporaryDirectory()
        cfg.paths.run_dir = aside.name
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if distribution.kind != "multi_host":
        runs.choose_run(cfg)
        if runs.is_done(cfg):
            return
    training.start(cfg.seed, cfg.trainer.precision)
    domains = building.build_domains(cfg)
    building.count_steps(cfg, domains)
    intervals = building.step_intervals(cfg)

    def build(method):
        # the same initial weights for each method
        training.start(cfg.seed, cfg.trainer.precision, distribution)
        with distribution.scope():
            model = building.build_model(cfg, method, domains)
            optimizer = building.build_optimizer(cfg, model)
            return training.compile_model(model, optimizer, cfg.trainer, intervals)

    model = build(cfg.method)
    baseline = None
    adapts = model.terms or model.regularizers or domains.nuisances
    # A second stage continues a trained model, so a baseline would not be comparable.
    if cfg.compare and adapts and "teacher" not in cfg.method:
        plain = {**cfg.method, "strength": 0.0} if domains.nuisances else SOURCE_ONLY
        baseline = runs.shared_baseline(cfg) or build(plain)
    callbacks = building.build_callbacks(cfg, model)
    training.train_run(
        cfg.paths.run_dir,
        domains,
        cfg.trainer,
        cfg.seed,
        model,
        baseline,
        callbacks=callbacks,
        selection=cfg.selection,
        resume=cfg.resume,
        config=runs.serialize_config(cfg),
        name="+".join([HydraConfig.get().runtime.choices["method"], *cfg.regularizers]),
    )
    if HydraConfig.get().mode == RunMode.RUN:
        tell_next(
            training.RunDirectory(cfg.paths.run_dir),
            "evaluate" if domains.nuisances else "diagnose",
        )


def tell_next(run, script):
    """Says what can be done with a finished run."""
    is_installed = (HERE.parent / "__init__.py").is_file()
    command = f"dann-{script}" if is_installed else f"python {os.path.relpath(HERE)}/{script}.py"
    print(f"Classifier: {run}/{run.classifier_file.name}")
    print(f"Next: {command} {format_argument('run', run)}")
    if run.tensorboard.is_dir():
        print(f"      tensorboard --logdir {shlex.quote(f'{run}/{run.tensorboard.name}')}")


if __name__ == "__main__":
    main()
