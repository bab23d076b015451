import pytest

from dann.registry import Registry


@pytest.fixture
def colours():
    registry = Registry("colour")
    registry.register("red", warm=True)(object())
    registry.register("blue")(dict)
    return registry


def test_names_are_in_alphabetical_order(colours):
    assert list(colours) == ["blue", "red"]
    assert len(colours) == 2


def test_an_entry_has_the_registered_facts(colours):
    entry = colours.entry("red")

    assert entry.facts == {"warm": True}
    assert entry.thing is colours["red"]


def test_an_unknown_name_lists_those_there_are(colours):
    with pytest.raises(ValueError, match="`colour` must be one of 'blue', 'red'.*'green'"):
        colours.entry("green")
