"""The readers in their registry, and the configs that call them."""

import inspect
import pathlib

import pytest
import yaml

import dann
from dann.data import READERS, DomainPair

CONF = pathlib.Path(__file__).parents[2] / "conf/data"
CONFIGURED = [name for name in READERS if "config" in READERS.entry(name).facts]
NODES = {path.stem: yaml.safe_load(path.read_text()) for path in CONF.glob("*.yaml")}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_a_function_of_the_room_that_gives_a_domain_pair(name):
    assert getattr(dann.data, name) is READERS[name]
    assert inspect.signature(READERS[name]).return_annotation is DomainPair


def test_every_config_calls_a_reader_and_every_reader_has_its_config():
    called = {name: node["_target_"] for name, node in NODES.items()}
    named = {READERS.entry(name).facts["config"]: name for name in CONFIGURED}
    assert called == {config: f"dann.data.{name}" for config, name in named.items()}


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_keys_of_a_config_and_of_the_command_are_arguments_of_the_reader(name):
    facts = READERS.entry(name).facts
    node = NODES[facts["config"]]
    of_config = set(node) - {"_target_", "sources"}
    assert of_config <= set(inspect.signature(READERS[name]).parameters)
    choice, *settings = facts["command"].split()
    assert choice == f"data={facts['config']}"
    keys = [setting.partition("=")[0] for setting in settings]
    assert {key.removeprefix("data.") for key in keys if key.startswith("data.")} <= of_config
    assert all(node[key] != "???" or f"data.{key}" in keys for key in of_config)
