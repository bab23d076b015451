"""Provides the names and the working folder of code on the pages."""

import pytest


@pytest.fixture
def names(tmp_path, monkeypatch, cache):
    """Returns an empty namespace; the working folder is new and has the prepared data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prepared").symlink_to(cache)
    return {}
