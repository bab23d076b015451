"""What the text of a constructor refuses, the constructor refuses, with the same error."""

import inspect

import pytest

from dann.config.config_error import ConfigError
from dann.config.config_values import check_values
from dann.config.instantiation import instantiate
from dann.config.refused_arguments import as_default, refusal
from tests.config.test_constructor_checks import named_things

ODD = (-1, 0, 1, 2, -1.0, 0.5, 2.0, 1e9, "", "x", None, True, [], [1, -1])
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def error_of(thing, given):
    try:
        thing(**given)
    except Exception as error:
        return error
    return None


@pytest.mark.tensorflow
def test_each_refusal_is_the_error_of_the_class():
    pytest.importorskip("tensorflow")
    refused = set()
    for name, thing in named_things():
        named = [
            each for each in inspect.signature(thing).parameters.values() if each.kind in NAMED
        ]
        for argument, parameter in ((each.name, each) for each in named):
            for value in ODD:
                given = {argument: as_default(value, parameter.default)}
                expected = refusal(name, {argument: value})
                actual = error_of(thing, given) if expected is not None else None
                if expected is not None and "required positional" not in str(actual):
                    assert (type(actual), str(actual)) == (type(expected), str(expected))
                    refused.add((name, argument))
    assert len(refused) > 50


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


class Early:
    def __init__(self, size=1):
        if size == other():
            return
        if size > 3:
            raise ValueError("size must be at most 3")
"""


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
        ("Early", {"size": 4}, None),  # what it returns for is not known
    ],
)
def test_it_follows_the_text(name, given, message, monkeypatch, tmp_path):
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up/__init__.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    error = refusal(f"made_up.{name}", given)
    assert (error and str(error)) == message


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


def test_an_error_names_the_key_and_the_class():
    node = {"_target_": "keras.optimizers.SGD", "momentum": -1}
    with pytest.raises(ConfigError, match=r"^optimizer: keras.optimizers.SGD: `momentum` must be"):
        check_values({"optimizer": node})
