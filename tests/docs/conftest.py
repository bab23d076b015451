"""Provides the names that code on the pages assumes: imports, small arrays, a working folder."""

import keras
import numpy as np
import pytest

import dann


@pytest.fixture
def names(tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prepared").symlink_to(cache)
    images = np.random.default_rng(0).integers(0, 256, (128, 28, 28, 3)).astype("uint8")
    labels = np.arange(128) % 10
    return {
        "dann": dann,
        "keras": keras,
        "np": np,
        "source_images": images,
        "source_labels": labels,
        "target_images": 255 - images[:96],
        "target_labels": labels[:96],
        "test_images": images[:32],
        "test_labels": labels[:32],
        "images": images[:32],
    }
