"""Prints the devices that the Keras backend finds, and checks that they train as they should.

python scripts/check_device.py               every accelerator, or else the processor
python scripts/check_device.py --devices 2   also a step on two of them, or on two logical CPUs

The exit status is 0 if all is well, and 1, with one line that says what is not, if something fails.
"""

import argparse
import os
import signal
import sys

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, help="how many devices share a step")
    given = parser.parse_args()
    from dann.config.config_error import ConfigError
    from dann.config.start_backend import start_backend
    from dann.training.distribution import Distribution

    try:
        several = None
        if given.devices is not None:
            several = Distribution("data_parallel", given.devices)
        start_backend(several and several.connect)
        from dann.training.check_device import DeviceError, check_device
    except (ConfigError, ImportError, RuntimeError, ValueError) as error:
        return _told(error)
    try:
        for line in check_device(several):
            print(line, flush=True)
    except DeviceError as error:
        return _told(error)
    print("All is well.")
    return 0


def _told(error):
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
