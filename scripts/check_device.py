"""Prints the devices that the Keras backend finds, and checks that they train as they should.

python scripts/check_device.py               every accelerator, or else the processor
python scripts/check_device.py --devices 2   also a step on two of them, or on two logical CPUs

The exit status is 0 if all is well, and 1, with one line that says what is not, if something fails.
"""

import argparse
import sys

import environment  # noqa: F401

from dann.training import Distribution
from dann.training.check_device import DeviceError, check_device


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, help="how many devices share a step")
    given = parser.parse_args()
    try:
        several = None
        if given.devices is not None:
            several = Distribution("data_parallel", given.devices)
            several.connect()
        for line in check_device(several):
            print(line, flush=True)
    except (DeviceError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {' '.join(str(error).split())}")
    print("All checks passed.")


if __name__ == "__main__":
    main()
