import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# TensorFlow would turn these kernels off on processors without AVX-512, which takes twice the time.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras
import pytest

from dann.checks import print_warning

# Graphs leave millions of objects, and searching them for garbage took a fifth of the time.
gc.set_threshold(200_000, 50, 100)
gc.freeze()  # the search, which also precedes most models, then skips the imported modules


def pytest_ignore_collect(collection_path):
    """Skips helpers and programs, which have neither tests nor examples."""
    is_helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if is_helper else None


@pytest.fixture(autouse=True)
def seeded():
    """Starts every test with the same seeds, the same precision and no earlier warnings."""
    print_warning.cache_clear()
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def reloaded(tmp_path):
    """Returns a function that saves a model and loads it again in safe mode."""

    def reload(model):
        model.save(tmp_path / "model.keras")
        return keras.models.load_model(tmp_path / "model.keras", safe_mode=True)

    return reload


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Returns a folder of prepared data that the tests of all workers share."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "prepared"
    folder.mkdir(exist_ok=True)
    return folder
