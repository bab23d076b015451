"""The readers, and the configs that call them."""

import inspect
import pathlib

import pytest
import yaml

import dann
from dann.data import READERS, DomainPair

CONF = pathlib.Path(__file__).parents[2] / "conf/data"


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_is_a_function_of_the_room_that_gives_a_domain_pair(reader):
    assert getattr(dann.data, reader.__name__) is reader
    assert inspect.signature(reader).return_annotation is DomainPair


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_config_calls_a_reader_with_its_arguments_and_shows_the_command(path):
    node = yaml.safe_load(path.read_text())
    reader = getattr(dann.data, node.pop("_target_").removeprefix("dann.data."))
    for key in ("sources", "path"):
        node.pop(key, None)
    known = inspect.signature(reader).parameters.keys()
    if "options" in known:
        known |= inspect.signature(dann.data.arrays).parameters.keys()
    assert node.keys() <= known
    required = [f"data.{key}=" for key, value in node.items() if value == "???"]
    assert all(key in path.read_text() for key in required)


def test_every_reader_has_its_config():
    called = {yaml.safe_load(path.read_text())["_target_"] for path in CONF.glob("*.yaml")}
    assert called == {f"dann.data.{reader.__name__}" for reader in READERS}
