"""Writes a run's classifier in another format, and compares what it wrote with the original.

python scripts/export.py run=<run directory> format=packed        1-bit weights: dann.deployment
python scripts/export.py run=<run directory> format=keras         Keras, as a plain network
python scripts/export.py run=<run directory> format=saved_model   TensorFlow Serving
python scripts/export.py run=<run directory> format=litert        LiteRT, once TensorFlow Lite
python scripts/export.py run=<run directory> format=onnx          ONNX Runtime

The file goes to `export/` in the run directory, if it gives what the classifier gives on inputs of
the target's test set.
"""

import os
import signal

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

from dann import config  # noqa: E402
from dann.training import RunDirectory  # noqa: E402


def prepare(cfg):
    from dann.training.export_run import check_export

    settings = cfg.format, cfg.examples, cfg.tolerance
    try:
        check_export(*settings)
    except ImportError as error:
        raise config.ConfigError(str(error)) from error
    run = RunDirectory(cfg.run)
    classifier = run.classifier()
    domains = config.build_domains(config.config_of_run(cfg.run, cfg.paths))
    return run, classifier, domains.target_test[0], *settings


def work(prepared):
    from dann.training.export_run import export_run

    try:
        print(export_run(*prepared))
    except ValueError as error:  # such as a layer that the format does not have
        raise config.ConfigError(str(error)) from error


if __name__ == "__main__":
    config.run_script("export", prepare, work)
