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


def suite_class(suite):
    """The class that measures a suite."""
    from dann.autodiff.jacobian_speed import JacobianSpeed
    from dann.data.input_speed import InputSpeed
    from dann.deployment.packed_speed import PackedSpeed
    from dann.diagnostics.diagnostics_speed import DiagnosticsSpeed

    return dict(
        zip(SUITES, (InputSpeed, JacobianSpeed, PackedSpeed, DiagnosticsSpeed), strict=True)
    )[suite]


@config.command("benchmark")
def main(cfg):
    if cfg.suite not in SUITES:
        raise config.ConfigError(f"suite must be one of {', '.join(SUITES)}. Received: {cfg.suite}")
    suite = config.instantiate(cfg[cfg.suite], "network", also=[suite_class(cfg.suite)])
    yield

    from dann.training.hardware import hardware

    print(hardware())
    if cfg.suite in ("packed", "diagnostics"):
        print(suite.report())
        return
    if cfg.suite == "jacobian":
        from dann.autodiff.jacobian_speed import jacobian_table

        print(jacobian_table(suite.measure()))
        return

    from dann.data.input_speed import speed_table

    print(f"{suite.images} photos, batches of {suite.batch_size} + {suite.batch_size}")
    print(speed_table(suite.measure()))


if __name__ == "__main__":
    main()
