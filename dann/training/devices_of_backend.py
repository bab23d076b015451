"""What a backend does to find several devices, to connect and to train on them."""

import os
import socket

THREADS_OF_DEVICE = 4  # of XLA, where it splits the processor


def start_jax(group):
    """Connects the JAX of all processes, at a port of process 0 that is free."""
    import jax  # pyright: ignore[reportMissingImports]
    import keras

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    with socket.socket(socket.AF_INET6 if ":" in group.host else socket.AF_INET) as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    port = group.first_says(port)
    host = f"[{group.host}]" if ":" in group.host else group.host
    keras.distribution.initialize(f"{host}:{port}", group.num_processes, group.process_id)


def _split_tensorflow(count):
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        processor = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * count
        tf.config.set_logical_device_configuration(processor, logical)


def _split_jax(count):
    import jax  # pyright: ignore[reportMissingImports]

    jax.config.update("jax_num_cpu_devices", count)
    # A device that waits for the others holds one of XLA's threads, of which there are as many as
    # cores. With too few, a busy machine's devices wait for each other until XLA aborts.
    threads = THREADS_OF_DEVICE * max(count, os.cpu_count() or 1)
    os.environ.setdefault("NPROC", str(threads))


SPLITS = {"tensorflow": _split_tensorflow, "jax": _split_jax}


def mirrored(names):
    """Returns the strategy of TensorFlow that trains on devices of these names."""
    import tensorflow as tf

    on_processor = "cpu" in names[0].lower()
    # Collectives, the default on a processor, serve only one strategy a process.
    reduction = tf.distribute.ReductionToOneDevice() if on_processor else None
    return tf.distribute.MirroredStrategy(names, cross_device_ops=reduction)
