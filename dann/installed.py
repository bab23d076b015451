"""Whether TensorFlow is there."""


def has_tensorflow() -> bool:
    """Returns whether TensorFlow can be imported; this imports it."""
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        return False
    return True
