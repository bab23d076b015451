import pytest

from dann.registry import Registry


@pytest.fixture
def colours():
    registry = Registry("colour")
    registry.register("red", summary="Like blood.", warm=True)(object())
    registry.register("blue", summary="Like the sky.")(dict)
    return registry


def test_names_are_in_alphabetical_order(colours):
    assert list(colours) == ["blue", "red"]
    assert len(colours) == 2


def test_an_entry_has_the_registered_facts(colours):
    entry = colours.entry("red")

    assert (entry.summary, entry.facts) == ("Like blood.", {"warm": True})
    assert entry.thing is colours["red"]


def test_an_unknown_name_lists_those_there_are(colours):
    with pytest.raises(ValueError, match="`colour` must be one of 'blue', 'red'.*'green'"):
        colours.entry("green")


def test_a_name_is_given_once(colours):
    with pytest.raises(ValueError, match="'blue'.*dict"):
        colours.register("blue", summary="Another.")(list)


def test_the_same_thing_may_be_registered_again_as_a_module_that_is_reloaded_does(colours):
    colours.register("blue", summary="Like the sea.")(dict)

    assert colours.entry("blue").summary == "Like the sea."
