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
    check_value_range,
)


def test_valid_values_become_python_numbers():
    values = [check_number("x", 2), check_number("x", np.float32(0.5)), check_number("x", 1, 1, 1)]
    assert values == [2.0, 0.5, 1.0]
    assert all(type(value) is float for value in values)
    assert type(check_integer("k", np.int64(3), low=1)) is int
    assert check_choice("implementation", "a", ("a", "b")) == "a"
    check_shape("labels", (3, 4), ["batch", "size"])
    check_class_range("labels", np.array([0, 2, -1]), 3, unknown=-1)
    check_class_range("labels", np.array([]), 1)


NUMBER, INTEGER = "Expected `x` to be a finite number", "Expected `k` to be an integer"
LABELS = np.array([0, 2, 7, -1, 7, 3])
MANY_CHOICES = ["Net1", *"abcdefghijklmnopqrst"]


REFUSALS = {
    "below": (lambda: check_number("x", -0.1, low=0), f"{NUMBER} >= 0. "),
    "above": (lambda: check_number("x", 1.1, high=1), f"{NUMBER} <= 1. "),
    "at low": (lambda: check_number("x", 0, 0, exclude_low=True), f"{NUMBER} > 0. "),
    "at high": (lambda: check_number("x", 1, high=1, exclude_high=True), f"{NUMBER} < 1. "),
    "NaN": (lambda: check_number("x", math.nan), f"{NUMBER}. Received: x=nan"),
    "integer below": (lambda: check_integer("k", 0, low=1), f"{INTEGER} >= 1. Received: k=0"),
    "hint": (lambda: check_integer("k", 1, 2, hint="because"), ">= 2, because. Received: k=1"),
    "no choice": (lambda: check_choice("m", "c", ("a", "b")), "one of 'a', 'b'. Received: m='c'"),
    "misspelt choice": (lambda: check_choice("n", "net1", MANY_CHOICES), "mean 'Net1'?"),
    "boolean choice": (lambda: check_choice("n", True, (1, 2)), "one of 1, 2. Received: n=True"),
    "shape": (lambda: check_shape("x", (3, 4), ["batch"]), "(batch,). Received: shape (3, 4)"),
    "value range": (lambda: check_value_range("r", (1, 0)), "the smallest and the largest pixel"),
    "classes": (lambda: check_class_range("x", LABELS, 3), "for 3 classes. Received: -1, 3, 7"),
    "unknown": (lambda: check_class_range("x", LABELS, 3, unknown=-1), "unknown. Received: 3, 7"),
}


@pytest.mark.parametrize(("call", "message"), REFUSALS.values(), ids=REFUSALS)
def test_invalid_value_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("value", [True, "1", None])
def test_value_of_other_type_is_refused(value):
    with pytest.raises(TypeError, match=NUMBER):
        check_number("x", value)
    for integer in (value, 1.0):
        with pytest.raises(TypeError, match=INTEGER):
            check_integer("k", integer)
