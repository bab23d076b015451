from dann.registry import Registry


def test_a_registry_holds_things_and_facts_by_name():
    colours = Registry()
    red = colours.register("red", warm=True)(object())
    assert colours == {"red": red}
    assert colours.facts == {"red": {"warm": True}}
