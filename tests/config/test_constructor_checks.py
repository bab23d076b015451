"""What the text of a class tells of its arguments is what the class does."""

import inspect

import pytest

from dann.config.config_error import ConfigError
from dann.config.config_values import check_values
from dann.config.constructor_checks import arguments_of


def named_things():
    """Yields each class or function that a config may name, with its public name."""
    import keras

    import dann
    from dann import layers, networks, optimizers, schedules
    from dann.config.allowed_targets import GROUPS, allowed

    modules = (dann, layers, networks, optimizers, schedules, keras.layers, keras.optimizers)
    modules = (*modules, keras.optimizers.schedules, keras.callbacks)
    modules = (*modules, keras.initializers, keras.regularizers, keras.constraints)
    for thing in {id(each): each for group in GROUPS for each in allowed(group)}.values():
        for module in modules:
            if getattr(module, thing.__name__, None) is thing:
                yield f"{module.__name__}.{thing.__name__}", thing
                break


def test_defaults_are_those_of_the_constructor():
    compared = 0
    for name, thing in named_things():
        own = inspect.signature(thing).parameters
        for argument, default in arguments_of(name).defaults.items():
            if argument in own:
                assert own[argument].default == default, (name, argument)
                compared += 1
    assert compared > 300


def test_checks_accept_the_defaults():
    checked = 0
    for name, _ in named_things():
        defaults, checks, _ = arguments_of(name)
        for check in checks:
            if defaults.get(check.name) is not None:
                check.run(defaults[check.name])
                checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    ("target", "argument", "wrong"),
    [
        ("dann.schedules.GaninSchedule", "gamma", -1),
        ("dann.layers.GradientReversal", "strength", -1),
        ("dann.layers.GradientReversal", "way", "sideways"),
        ("dann.layers.DomainBlend", "factor", 1.5),
        ("dann.MCC", "weight", -1.0),
        ("dann.MCC", "temperature", 0),
        ("dann.optimizers.FlipRatio", "every", 0),
        ("dann.networks.cnn_backbone", "units", -3),
        ("dann.networks.cnn_backbone", "filters", [8, 0]),
        ("dann.networks.lenet_backbone", "bottleneck_units", 0),
        ("dann.networks.binary_resnet_backbone", "filters", []),
    ],
)
def test_what_a_check_refuses_the_constructor_refuses_too(target, argument, wrong):
    import dann
    from dann import layers, networks, optimizers, schedules

    parts = (dann, layers, networks, optimizers, schedules)
    modules = {module.__name__: module for module in parts}
    module, _, name = target.rpartition(".")
    others = {"total_steps": 10} if name == "GaninSchedule" else {}
    message = f"Argument `{argument}` must be"
    with pytest.raises(ValueError, match=message):
        getattr(modules[module], name)(**others, **{argument: wrong})
    refusals = []
    for check in arguments_of(target).checks:
        if check.name == argument:
            try:
                check.run(wrong)
            except ValueError as error:
                refusals.append(str(error))
    assert [told[: len(message)] for told in refusals] == [message]


@pytest.mark.parametrize(
    ("target", "argument"),
    [
        ("dann.CDAN", "strength"),
        ("dann.data.image_folder", "test_share"),
        ("dann.data.npz", "test_share"),
        ("dann.data.csv_table", "test_share"),
    ],
)
def test_an_argument_is_followed_to_what_checks_it(target, argument):
    assert argument in [check.name for check in arguments_of(target).checks]


def test_checks_that_an_if_may_leave_out_are_not_read():
    checks = arguments_of("dann.optimizers.Bop").checks
    assert "learning_rate" not in [check.name for check in checks]


def test_what_cannot_be_read_has_no_arguments_that_are_known():
    assert arguments_of("dann.nothing.Such") == ({}, [], set())


def test_a_class_with_the_name_of_its_base_is_read(tmp_path, monkeypatch):
    (tmp_path / "of_one_name").mkdir()
    text = "class Adam(adam.Adam):\n    def __init__(self, rate=0.5):\n        pass\n"
    (tmp_path / "of_one_name/__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert arguments_of("of_one_name.Adam") == ({"rate": 0.5}, [], set())


def test_values_in_nested_nodes_are_checked_by_their_key():
    blend = {"_target_": "dann.layers.DomainBlend", "factor": 2.0}
    with pytest.raises(ConfigError, match="augmentation.blend: Argument `factor` .* of at most 1"):
        check_values({"augmentation": {"source": None, "blend": blend}})
    check_values({"augmentation": {"blend": {**blend, "factor": 0.5}}})
