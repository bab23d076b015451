"""What the text of a constructor refuses, the constructor refuses, with the same error."""

import inspect
import re

import pytest

from dann.config.config_error import ConfigError
from dann.config.config_values import check_values
from dann.config.instantiation import instantiate
from dann.config.refused_arguments import accepted, as_default, refusal
from tests.config.test_constructor_checks import named_things

ODD = (-1, 0, 1, 2, -1.0, 0.5, 2.0, 1e9, "", "x", None, True, [], [1, -1])
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def error_of(thing, given):
    try:
        thing(**given)
    except Exception as error:
        return error
    return None


def told(error):
    """Type and text; sets that the text shows are sorted, whose order depends on the process."""
    shown = re.sub(r"(?<={)[^{}]+(?=})", lambda it: str(sorted(it[0].split(", "))), str(error))
    return type(error), shown


@pytest.mark.tensorflow
def test_each_refusal_is_the_error_of_the_class():
    pytest.importorskip("tensorflow")
    refused = set()
    for name, thing in named_things():
        named = [
            each for each in inspect.signature(thing).parameters.values() if each.kind in NAMED
        ]
        if refusal(name, {}) is not None:  # it is wrong in two ways then, of which one is told
            continue
        for argument, parameter in ((each.name, each) for each in named):
            for value in ODD:
                given = {argument: as_default(value, parameter.default)}
                expected = refusal(name, {argument: value})
                actual = error_of(thing, given) if expected is not None else None
                if expected is not None and "required positional" not in str(actual):
                    assert told(actual) == told(expected)
                    refused.add((name, argument))
    assert len(refused) > 50


@pytest.mark.tensorflow
def test_every_public_name_may_have_no_arguments_yet():
    pytest.importorskip("tensorflow")
    import keras

    from dann import layers

    modules = (keras.layers, keras.initializers, keras.regularizers, keras.constraints, layers)
    names = [f"{module.__name__}.{name}" for module in modules for name in dir(module)]
    assert len(names) > 200
    for name in names:
        assert refusal(name, {}, more_later=True) is None, name


@pytest.mark.tensorflow
def test_what_is_not_accepted_is_unknown_to_the_class():
    pytest.importorskip("tensorflow")
    told = 0
    for name, thing in named_things():
        known = accepted(name)
        named = [
            each for each in inspect.signature(thing).parameters.values() if each.kind in NAMED
        ]
        assert not known or {each.name for each in named} <= known, name
        if known:
            with pytest.raises((TypeError, ValueError)) as caught:
                thing(none_such=1)
            told += "none_such" in str(caught.value)  # others lack an argument first
    assert told > 120


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("dann.DANN", {"domain_label_smoothing", "way", "trainable"}),
        ("dann.layers.GradientReversal", {"strength", "way", "name", "dtype"}),
        ("keras.layers.RandomFlip", {"mode", "factor", "autocast", "input_shape"}),
        ("keras.optimizers.SGD", {"momentum", "clipnorm", "decay"}),
        ("keras.src.optimizers.adam.Adam", {"beta_1", "clipnorm"}),
        ("keras.Model", {"name", "trainable"}),
    ],
)
def test_what_the_bases_take_is_accepted(name, known):
    assert known <= accepted(name)
    assert not accepted(name) & {"self", "args", "kwargs"}


TEXT = """
class Base:
    def __init__(self, size, shape=None, kind="a"):
        if shape is None and size > 3:
            raise ValueError(f"size must be at most 3. Received: {size}")
        if kind == "b":
            raise TypeError("kind must not be b")


class Part(Base):
    def __init__(self, low=0.0, high=1.0, kind="a", shape=None, **kwargs):
        super().__init__(low, kind="b" if kind == "c" else kind, shape=shape, **kwargs)
        if low > high:
            raise ValueError(f"low must be at most high. Received: {low} and {high}")
        kind = kind.lower()
        if kind == "A":
            raise ValueError("never")


class Taking(Part):
    def __init__(self, step=1, **kwargs):
        self.pace = kwargs.pop("pace", None)
        refuse_odd(type(self), kwargs)
        super().__init__(**kwargs)


class Refusing:
    def __init__(self, step=1, **kwargs):
        kwargs.pop("pace", None)
        if kwargs:
            raise ValueError(f"unknown: {kwargs}")


class Choosing:
    def __init__(self, step=1, **kwargs):
        self.step = kwargs.pop(step)
        if kwargs:
            raise ValueError(f"unknown: {kwargs}")


class Keeping:
    def __init__(self, step=1, **kwargs):
        self.all = dict(kwargs)


class Unused:
    def __init__(self, step=1, **kwargs):
        self.step = step


class Counting:
    def __init__(self, low=None, high=None, shape=None):
        count = sum(each is not None for each in [low, high])
        if count > 1:
            raise ValueError(f"one at most. Received: {low} and {high}")
        shape = other(shape)
        if shape is not None:
            raise ValueError("never")


class Early:
    def __init__(self, size=1):
        if size == other():
            return
        if size > 3:
            raise ValueError("size must be at most 3")
"""


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up/__init__.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("Base", "size shape kind"),
        ("Part", "low high kind shape size"),
        ("Taking", "step pace low high kind shape size"),
        ("Refusing", "step pace"),
        ("Choosing", ""),
        ("Keeping", ""),  # it may use any of them
        ("Unused", ""),
    ],
)
def test_it_accepts_what_the_text_names(name, known, made_up):
    assert accepted(f"made_up.{name}") == set(known.split())


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("Part", {}, None),
        ("Part", {"low": 2}, "low must be at most high. Received: 2.0 and 1.0"),
        ("Part", {"low": 2, "high": {"_target_": "keras.layers.Dense"}}, None),
        ("Part", {"low": 4, "high": 5}, "size must be at most 3. Received: 4.0"),
        ("Part", {"low": 4, "high": 5, "shape": [1]}, None),
        ("Part", {"low": 4, "high": 5, "shape": [{"_target_": "keras.layers.Dense"}]}, None),
        ("Part", {"kind": "A"}, None),  # the name is bound again before the test
        ("Part", {"kind": "b"}, "kind must not be b"),
        ("Part", {"kind": "c"}, "kind must not be b"),
        ("Counting", {"low": 2}, None),
        ("Counting", {"low": 2, "high": 3}, "one at most. Received: 2 and 3"),
        ("Counting", {"shape": 3}, None),  # what it is made into is not known
        ("Early", {"size": 4}, None),  # what it returns for is not known
    ],
)
def test_it_follows_the_text(name, given, message, made_up):
    error = refusal(f"made_up.{name}", given)
    assert (error and str(error)) == message


def test_what_is_counted_first_is_refused_as_the_class_does():
    import keras

    both = {"clipnorm": 1.0, "clipvalue": 1.0}
    with pytest.raises(ValueError, match="Only one of") as told:
        keras.optimizers.SGD(**both)
    assert str(refusal("keras.optimizers.SGD", both)) == str(told.value)


def test_arguments_that_come_later_have_no_default():
    given = {"units": -1}
    assert refusal("keras.optimizers.SGD", {"momentum": 2.0}, more_later=True) is not None
    assert refusal("keras.layers.Dense", given, more_later=True) is not None
    assert refusal("keras.layers.Dense", {}, more_later=True) is None


@pytest.mark.tensorflow
def test_a_whole_number_serves_where_keras_insists_on_a_float():
    pytest.importorskip("tensorflow")
    node = {"_target_": "keras.optimizers.SGD", "learning_rate": 1, "momentum": 0}
    check_values({"optimizer": node})
    assert instantiate(node, "optimizer").momentum == 0.0


def test_a_number_too_large_for_a_float_stays_one():
    assert as_default(10**400, 1.0) == 10**400


def test_an_unknown_argument_is_told_with_those_that_there_are():
    node = {"_target_": "dann.schedules.GaninSchedule", "gama": 5}
    message = r"^schedule: \S+GaninSchedule takes gamma, high, total_steps. Received: gama=5$"
    with pytest.raises(ConfigError, match=message):
        check_values({"schedule": node})


def test_an_error_names_the_key_and_the_class():
    node = {"_target_": "keras.optimizers.SGD", "momentum": -1}
    with pytest.raises(ConfigError, match=r"^optimizer: keras.optimizers.SGD: `momentum` must be"):
        check_values({"optimizer": node})
