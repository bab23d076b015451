"""Two pairs of digit data sets: the default, and the DANN paper's first experiment."""

from dann.data.domain_pair import DomainPair
from dann.data.parts import READERS
from dann.data.tfds_pair import tfds_pair


@READERS.register("digits_to_photos")
def digits_to_photos(cache_dir: str) -> DomainPair:
    """Pairs handwritten digits on black with digits over photos, 16x16 in colour.

    Everything comes from scikit-learn's package; see `ChalkDigits`.

    Args:
        cache_dir: Folder for prepared data sets.
    """
    return tfds_pair(
        "chalk_digits/black",
        "chalk_digits/photo",
        cache_dir=cache_dir,
        source_name="digits on black",
        target_name="digits over photos",
    )


@READERS.register("mnist_to_mnist_m")
def mnist_to_mnist_m(cache_dir: str, data_dir: str | None = None) -> DomainPair:
    """Pairs MNIST with MNIST-M, 28x28 with three channels: the DANN paper's first experiment.

    Args:
        cache_dir: Folder for prepared data sets.
        data_dir: Folder of the raw files, `mnist/*.gz` and `bsds500/*.jpg`. Defaults to `None`:
            they are downloaded.
    """
    return tfds_pair(
        "mnist",
        "mnist_m",
        cache_dir=cache_dir,
        data_dir=data_dir,
        source_name="MNIST",
        target_name="MNIST-M",
    )
