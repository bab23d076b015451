"""The embedded default: handwriting on black, and over photos."""

from dann.data.domain_pair import DomainPair
from dann.data.tfds_pair import tfds_pair


def digits_to_photos(cache_dir: str) -> DomainPair:
    """Returns handwritten digits on black as source and over photos as target, 16x16 in colour.

    Everything comes from scikit-learn's package; see `ChalkDigits`.

    Args:
        cache_dir: Where prepared data sets are kept.
    """
    return tfds_pair(
        "chalk_digits/black",
        "chalk_digits/photo",
        cache_dir=cache_dir,
        source_name="digits on black",
        target_name="digits over photos",
    )
