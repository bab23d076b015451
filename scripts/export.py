"""Writes a run's classifier in another format, and compares what it wrote with the original.

python scripts/export.py run=<run directory> format=packed        1-bit weights: dann.deployment
python scripts/export.py run=<run directory> format=c             one C file, for a microcontroller
python scripts/export.py run=<run directory> format=saved_model   TensorFlow Serving
python scripts/export.py run=<run directory> format=litert        LiteRT, once TensorFlow Lite
python scripts/export.py run=<run directory> format=onnx          ONNX Runtime

The file goes to `export/` in the run directory, if it gives what the classifier gives on inputs of
the target's test set.
"""

import environment  # noqa: F401
import numpy as np

from dann.checks import did_you_mean
from dann.config.building import ConfigError, build_domains
from dann.config.runs import load_run_config
from dann.config.script import script
from dann.deployment import FORMATS, export
from dann.training import RunDirectory


@script("export")
def main(cfg):
    if cfg.format not in FORMATS:
        meant = did_you_mean(cfg.format, FORMATS)
        raise ConfigError(f"No format={cfg.format}.{meant or f' Choose of {list(FORMATS)}.'}")
    run = RunDirectory(cfg.run)
    classifier = run.classifier()
    domains = build_domains(load_run_config(cfg.run, cfg.paths))
    inputs = domains.target_test[0]
    count = min(cfg.examples, len(inputs))
    spread = np.linspace(0, len(inputs) - 1, count).astype(int)
    ending = FORMATS[cfg.format][0]
    path = run.exports / f"{'classifier' if ending else cfg.format}{ending}"
    found = export(classifier, path, cfg.format, np.asarray(inputs[spread]), cfg.tolerance)
    print(
        f"{found['path']}: {found['bytes']:,} bytes; {found['examples'] - found['different']} of "
        f"{found['examples']} examples get the same class, and logits that differ by at most "
        f"{found['difference']:.2g}"
    )


if __name__ == "__main__":
    main()
