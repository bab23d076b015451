"""The DANN paper's first experiment."""

from dann.data.domain_pair import DomainPair
from dann.data.tfds_pair import tfds_pair


def mnist_to_mnist_m(cache_dir: str, data_dir: str | None = None) -> DomainPair:
    """Returns MNIST as source and MNIST-M as target, 28x28 with three channels.

    Args:
        cache_dir: Where prepared data sets are kept.
        data_dir: Where the raw files lie, `mnist/*.gz` and `bsds500/*.jpg`. Without it they are
            downloaded.
    """
    return tfds_pair(
        "mnist",
        "mnist_m",
        cache_dir=cache_dir,
        data_dir=data_dir,
        source_name="MNIST",
        target_name="MNIST-M",
    )
