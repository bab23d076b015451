"""Which packages can be imported."""

import importlib.util


def is_installed(module: str) -> bool:
    """Returns whether a top-level module can be imported.

    TensorFlow is imported to find out: others import it, so it must do more than lie there.
    """
    if module == "tensorflow":
        return has_tensorflow()
    return importlib.util.find_spec(module) is not None


def has_tensorflow() -> bool:
    """Returns whether TensorFlow can be imported; this imports it."""
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        return False
    return True
