"""TFDS builders of data sets that this package prepares itself, and the cache they share."""
