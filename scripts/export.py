"""Writes a run's classifier in another format, and compares what it wrote with the original.

python scripts/export.py run=<run directory> format=packed        1-bit weights: dann.deployment
python scripts/export.py run=<run directory> format=saved_model   TensorFlow Serving
python scripts/export.py run=<run directory> format=litert        LiteRT, once TensorFlow Lite
python scripts/export.py run=<run directory> format=onnx          ONNX Runtime

The file goes to `export/` in the run directory, if it gives what the classifier gives on inputs of
the target's test set.
"""

import os

os.environ.setdefault("DANN_LAZY_IMPORT", "1")

from dann import config  # noqa: E402


@config.command("export")
def main(cfg):
    from dann.deployment.exported_run import ExportedRun

    try:
        run = ExportedRun(cfg.run, cfg.format, cfg.examples, cfg.tolerance)
    except ImportError as error:
        raise config.ConfigError(str(error)) from error
    domains = config.build_domains(config.config_of_run(cfg.run, cfg.paths))
    told = run.export(domains.target_test[0])
    yield

    print(told)


if __name__ == "__main__":
    main()
