"""TFDS builders of datasets that this package prepares itself, and their cache.

TFDS finds a builder once its file is imported.
"""

from dann.data.builders import chalk_digits, emoji, mnist, usps  # noqa: F401
