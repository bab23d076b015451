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

import numpy as np  # noqa: E402

from dann import config  # noqa: E402
from dann.training import RunDirectory  # noqa: E402


def prepare(cfg):
    run = RunDirectory(cfg.run)
    classifier = run.classifier()
    domains = config.build_domains(config.config_of_run(cfg.run, cfg.paths))
    inputs = domains.target_test[0]
    count = min(cfg.examples, len(inputs))
    spread = np.linspace(0, len(inputs) - 1, count).astype(int)
    return run, classifier, np.asarray(inputs[spread]), cfg.format, cfg.tolerance


def work(prepared):
    from dann.deployment import FORMATS, export

    run, classifier, inputs, format, tolerance = prepared
    try:
        ending = FORMATS[format][0] if format in FORMATS else ""
        path = run.exports / f"{'classifier' if ending else format}{ending}"
        found = export(classifier, path, format, inputs, tolerance)
    except (ImportError, ValueError) as error:  # such as a layer that the format does not have
        raise config.ConfigError(str(error)) from error
    print(
        f"{found['path']}: {found['bytes']:,} bytes; {found['examples'] - found['different']} of "
        f"{found['examples']} examples get the same class, and logits that differ by at most "
        f"{found['difference']:.2g}"
    )


if __name__ == "__main__":
    config.run_script("export", prepare, work)
