"""Trains a network on labelled source data and unlabelled target data.

python scripts/train.py                                    the default, in about two minutes
python scripts/train.py method=source_only                 another method
python scripts/train.py experiment=mnist_to_mnist_m paths.data_dir=...
python scripts/train.py --help                             every group and key
"""

import os

os.environ.setdefault("DANN_LAZY_IMPORT", "1")  # errors in the command come before TensorFlow

from dann import config  # noqa: E402

SOURCE_ONLY = {"_target_": "dann.SourceOnly", "_partial_": True}


@config.command("train")
def main(cfg):
    from dann import training

    training.start(cfg.seed, cfg.trainer.precision)
    domains = config.instantiate(cfg.data)

    def build(method):
        training.start(cfg.seed, cfg.trainer.precision)  # the same initial weights for each method
        model = config.build_model(cfg, method, domains.input_shape, domains.num_classes)
        return training.compile_model(model, config.instantiate(cfg.optimizer), cfg.trainer)

    compare = cfg.compare and cfg.method["_target_"] != SOURCE_ONLY["_target_"]
    baseline = build(SOURCE_ONLY) if compare else None
    model = build(cfg.method)
    callbacks = list(config.instantiate(cfg.callbacks).values())
    run = training.Run(cfg.paths.run_dir, domains, cfg.trainer, cfg.seed)
    yield

    return run.train(model, baseline, callbacks)


if __name__ == "__main__":
    main()
