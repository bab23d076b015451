import sys

import pytest

from dann.installed import has_tensorflow, is_installed


def test_a_package_is_installed_or_not():
    assert is_installed("numpy")
    assert not is_installed("no_such_package")


@pytest.mark.tensorflow
def test_tensorflow_counts_if_it_can_be_imported(monkeypatch):
    assert has_tensorflow()
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # its import raises an error
    assert not has_tensorflow()
    assert not is_installed("tensorflow")
