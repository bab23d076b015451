import numpy as np
import pytest

from dann.data import DomainPair


@pytest.fixture
def domains():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 8, 8, 1)).astype("uint8")
    labels = np.arange(12) % 3
    test = images[::-1].copy(), labels[::-1].copy()
    return DomainPair("a", "b", (images, labels), (images, labels), images, test, 3)
