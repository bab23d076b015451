"""Readers, and the configs that call them."""

import inspect
import pathlib

import pytest
import yaml

import dann
from dann.data import READERS

CONF = pathlib.Path(__file__).parents[2] / "conf/data"


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_config_matches_arguments_and_shows_command(path):
    node = yaml.safe_load(path.read_text())
    reader = getattr(dann.data, node.pop("_target_").removeprefix("dann.data."))
    for key in ("sources", "path", "standardize"):
        node.pop(key, None)
    parameters = inspect.signature(reader).parameters.keys()
    if "options" in parameters:
        parameters |= inspect.signature(dann.data.arrays).parameters.keys()
    assert node.keys() <= parameters
    required = [f"data.{key}=" for key, value in node.items() if value == "???"]
    assert all(key in path.read_text() for key in required)


def test_every_reader_has_a_config():
    called = {yaml.safe_load(path.read_text())["_target_"] for path in CONF.glob("*.yaml")}
    assert called == {f"dann.data.{reader.__name__}" for reader in READERS}
