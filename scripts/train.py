"""Trains a network on labelled source data and unlabelled target data.

python scripts/train.py                                    the default, in about a minute
python scripts/train.py method=source_only                 another method
python scripts/train.py -m method=dann,cdan seed=0,1       a sweep, ranked without target labels
python scripts/train.py trainer.epochs=20                   20 passes over the source
python scripts/train.py hydra.run.dir=x resume=true         starts, or resumes after a stop
python scripts/train.py experiment=mnist_to_mnist_m paths.data_dir=...
python scripts/train.py --help                             every group and key
"""

import os
import sys
import tempfile

import environment  # noqa: F401

from dann import config, training

SOURCE_ONLY = {"_target_": "dann.SourceOnly", "_partial_": True}


@config.script("train")
def main(cfg):
    distribution = config.distribution_of(cfg)
    distribution.connect()
    if not distribution.leads:  # process 0 writes the run
        aside = tempfile.TemporaryDirectory()
        cfg.paths.run_dir = aside.name
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if distribution.kind != "multi_host" and config.is_done(cfg):
        return
    training.start(cfg.seed, cfg.trainer.precision)
    domains = config.build_domains(cfg)
    config.count_steps(cfg, domains)
    intervals = config.step_intervals(cfg)

    def build(method):
        # the same initial weights for each method
        training.start(cfg.seed, cfg.trainer.precision, distribution)
        shapes = domains.input_shape, domains.num_classes, domains.num_sources
        with distribution.scope():
            model = config.build_model(cfg, method, *shapes)
            optimizer = config.build_optimizer(cfg, model)
            return training.compile_model(model, optimizer, cfg.trainer, intervals)

    model = build(cfg.method)
    adapts = model.trains_on_labels and (model.terms or model.regularizers)
    baseline = build(SOURCE_ONLY) if cfg.compare and adapts else None
    callbacks = config.build_callbacks(cfg, model)
    run = training.Run(
        *(cfg.paths.run_dir, domains, cfg.trainer, cfg.seed, model, baseline, callbacks),
        selection=cfg.selection,
        resume=cfg.resume,
        config=config.texts_of(cfg),
    )
    run.train()


if __name__ == "__main__":
    main()
