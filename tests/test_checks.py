import math
import re

import numpy as np
import pytest

from dann.checks import (
    check_choice,
    check_class_range,
    check_integer,
    check_number,
    check_shape,
)


def test_a_number_in_range_comes_back_as_a_float_or_an_integer_of_pythons():
    values = [check_number("x", 2), check_number("x", np.float32(0.5)), check_number("x", 1, 1, 1)]
    assert values == [2.0, 0.5, 1.0]
    assert all(type(value) is float for value in values)
    assert type(check_integer("k", np.int64(3), low=1)) is int
    assert check_choice("implementation", "a", ("a", "b")) == "a"


NUMBER, INTEGER = "`x` must be a finite number", "`k` must be an integer"


@pytest.mark.parametrize(
    ("check", "given", "options", "told"),
    [
        (check_number, ("x", -0.1), {"low": 0}, f"{NUMBER} of at least 0. "),
        (check_number, ("x", 1.1), {"high": 1}, f"{NUMBER} of at most 1. "),
        (check_number, ("x", 2), {"low": 0, "high": 1}, f"{NUMBER} from 0 to 1. Received: x=2"),
        (check_number, ("x", 0), {"low": 0, "above": True}, f"{NUMBER} above 0. "),
        (check_number, ("x", 1), {"high": 1, "below": True}, f"{NUMBER} below 1. "),
        (check_number, ("x", math.nan), {}, f"{NUMBER}. Received: x=nan"),
        (check_integer, ("k", 0), {"low": 1}, f"{INTEGER} of at least 1. Received: k=0"),
        (check_integer, ("k", 9), {"high": 8}, f"{INTEGER} of at most 8. "),
        (check_integer, ("k", -1), {"low": 0, "high": 8}, f"{INTEGER} from 0 to 8. "),
        (check_integer, ("k", 1), {"low": 2, "why": "because"}, "at least 2, because. Received"),
        (
            check_choice,
            ("implementation", "c", ("a", "b")),
            {},
            "one of 'a', 'b'. Received: implementation='c'",
        ),
        (check_choice, ("n", "net1", ["Net1", *"abcdefghijklmnopqrst"]), {}, "one of 'Net1'. Rec"),
    ],
)
def test_a_value_out_of_range_is_refused(check, given, options, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        check(*given, **options)


@pytest.mark.parametrize("value", [True, "1", None])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=NUMBER):
        check_number("x", value)
    for wrong in (value, 1.0):
        with pytest.raises(TypeError, match=INTEGER):
            check_integer("k", wrong)


@pytest.mark.parametrize(
    ("shape", "axes", "words"),
    [((3, 4), ["batch"], r"\(batch,\)"), ((3,), ["batch", "size"], r"\(batch, size\)")],
)
def test_another_shape_is_refused(shape, axes, words):
    with pytest.raises(ValueError, match=f"X must have the shape {words}, why") as caught:
        check_shape("X", shape, axes, why="why")
    assert str(caught.value).endswith(f"Received: shape {shape}")
    check_shape("X", shape, shape)


def test_labels_that_are_no_class_are_refused_and_named_once():
    labels = np.array([0, 2, 7, -1, 7, 3])
    with pytest.raises(
        ValueError, match=r"L must be whole, at least 0 and below 3, .* Received: -1, 3, 7$"
    ):
        check_class_range("L", labels, 3)
    with pytest.raises(ValueError, match=r"or -1 if unknown. Received: 3, 7$"):
        check_class_range("L", labels, 3, unknown=-1)
    with pytest.raises(ValueError, match=r"Received: 10, 11, 12, 13, 14, ...$"):
        check_class_range("L", np.arange(20), 10)
    check_class_range("L", labels, 8, unknown=-1)
    check_class_range("L", np.array([]), 1)
