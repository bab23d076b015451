"""The embedded default: handwriting on black, and over photos."""

from dann.data.chalk_digits import ChalkDigits
from dann.data.domain_pair import DomainPair
from dann.data.prepared import prepare


def digits_to_photos(cache_dir: str) -> DomainPair:
    """Returns handwritten digits on black as source and over photos as target, 16x16 in colour.

    Everything comes from scikit-learn's package; see `ChalkDigits`.

    Args:
        cache_dir: Where prepared data sets are kept.
    """
    source, target = (
        prepare(ChalkDigits, cache_dir, config=config) for config in ("black", "photo")
    )
    return DomainPair(
        source="digits on black",
        target="digits over photos",
        source_train=source["train"],
        source_test=source["test"],
        target_train=target["train"][0],
        target_test=target["test"],
        num_classes=10,
    )
