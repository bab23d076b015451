"""Fits every construction on two logical CPUs; run by `deployments.py`.

Devices are split before TensorFlow starts, hence the process of its own.
"""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from support.contexts import fitted_kernel
from support.deployments import every_construction


def main(folder):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results = {"replicas": strategy.num_replicas_in_sync}
    for name, made in every_construction():
        with strategy.scope():
            results[name] = fitted_kernel(made)
    np.savez(folder / "results.npz", **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
