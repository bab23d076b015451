"""TFDS builders of data sets that this package prepares itself, and the cache they share."""

from dann.registry import import_modules

import_modules(__name__)  # a builder is known to TFDS once its file is imported
