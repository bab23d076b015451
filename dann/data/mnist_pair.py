"""MNIST and MNIST-M as a pair."""

import numpy as np
import tensorflow_datasets as tfds

from dann.data.domain_pair import DomainPair
from dann.data.mnist import find_mnist, read_mnist
from dann.data.mnist_m import MnistM
from dann.data.prepared import prepare


def mnist_to_mnist_m(cache_dir: str, data_dir: str | None = None) -> DomainPair:
    """Returns MNIST as source and MNIST-M as target, 28x28 with three channels.

    Args:
        cache_dir: Where prepared data sets are kept.
        data_dir: Where the raw files lie, `mnist/*.gz` and `bsds500/*.jpg`. Without it they are
            downloaded.

    Raises:
        FileNotFoundError: If `data_dir` holds no MNIST.
    """
    if data_dir is None:
        source = prepare(tfds.builder_cls("mnist"), cache_dir)
    else:
        paths = find_mnist(data_dir)
        source = {split: read_mnist(paths, split) for split in ("train", "test")}
    target = prepare(MnistM, cache_dir, manual_dir=data_dir)
    return DomainPair(
        source="MNIST",
        target="MNIST-M",
        source_train=_three_channels(*source["train"]),
        source_test=_three_channels(*source["test"]),
        target_train=target["train"][0],
        target_test=target["test"],
        num_classes=10,
    )


def _three_channels(images, labels):
    images = images.reshape(*images.shape[:3], 1)
    return np.repeat(images, 3, axis=-1), labels
