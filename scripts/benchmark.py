"""Measures speeds.

python scripts/benchmark.py suite=input                training pairs from folders of JPEGs
python scripts/benchmark.py suite=jacobian             Jacobians, beside a tape's own
python scripts/benchmark.py suite=packed               binary layers and networks
python scripts/benchmark.py suite=diagnostics          certificate, conflict, game and sharpness
python scripts/benchmark.py input.image_size=64        other values
"""

import os

os.environ.setdefault("DANN_LAZY_IMPORT", "1")

from dann import config  # noqa: E402

SUITES = ("input", "jacobian", "packed", "diagnostics")


def prepare(cfg):
    from dann.autodiff.jacobian_speed import JacobianSpeed
    from dann.data.input_speed import InputSpeed
    from dann.deployment.packed_speed import PackedSpeed
    from dann.diagnostics.diagnostics_speed import DiagnosticsSpeed

    if cfg.suite not in SUITES:
        raise config.ConfigError(f"suite must be one of {', '.join(SUITES)}. Received: {cfg.suite}")
    classes = InputSpeed, JacobianSpeed, PackedSpeed, DiagnosticsSpeed
    return cfg.suite, config.instantiate(cfg[cfg.suite], "network", also=classes)


def work(prepared):
    from dann.autodiff.jacobian_speed import jacobian_table
    from dann.data.input_speed import speed_table
    from dann.training.hardware import hardware

    name, suite = prepared
    print(hardware())
    if name == "jacobian":
        print(jacobian_table(suite.measure()))
    elif name == "input":
        print(f"{suite.images} photos, batches of {suite.batch_size} + {suite.batch_size}")
        print(speed_table(suite.measure()))
    else:
        print(suite.report())


if __name__ == "__main__":
    config.run_script("benchmark", prepare, work)
