import math

import numpy as np
import pytest

from dann.checks import (
    check_choice,
    check_class_range,
    check_integer,
    check_number,
    check_shape,
)


def test_a_number_in_range_comes_back_as_a_float():
    values = [check_number("x", 2), check_number("x", np.float32(0.5)), check_number("x", 1, 1, 1)]

    assert values == [2.0, 0.5, 1.0]
    assert all(type(value) is float for value in values)


@pytest.mark.parametrize(
    ("options", "value", "wanted"),
    [
        ({"low": 0}, -0.1, "of at least 0"),
        ({"high": 1}, 1.1, "of at most 1"),
        ({"low": 0, "high": 1}, 2, "from 0 to 1"),
        ({"low": 0, "high": 1, "above": True}, 0, "above 0 and of at most 1"),
        ({"low": 0, "high": 1, "below": True}, 1, "of at least 0 and below 1"),
        ({}, math.nan, "a finite number. "),
    ],
)
def test_a_number_out_of_range_is_refused(options, value, wanted):
    with pytest.raises(ValueError, match="`x` must be a finite number") as caught:
        check_number("x", value, **options)

    assert wanted in str(caught.value)
    assert f"Received: x={value!r}" in str(caught.value)


@pytest.mark.parametrize("value", [True, "1", None])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match="`x` must be a finite number"):
        check_number("x", value)
    with pytest.raises(TypeError, match="`k` must be an integer"):
        check_integer("k", value)
    with pytest.raises(TypeError, match="`k` must be an integer"):
        check_integer("k", 1.0)


def test_an_integer_in_range_comes_back_as_pythons():
    assert type(check_integer("k", np.int64(3), low=1)) is int


@pytest.mark.parametrize(
    ("low", "high", "value", "wanted"),
    [
        (1, math.inf, 0, "of at least 1"),
        (-math.inf, 8, 9, "of at most 8"),
        (1, 8, 0, "from 1 to 8"),
        (0, 2**32 - 1, -1, "from 0 to 4294967295"),
    ],
)
def test_an_integer_out_of_range_is_refused(low, high, value, wanted):
    with pytest.raises(ValueError, match=f"must be an integer {wanted}. Received: k={value}"):
        check_integer("k", value, low, high)


def test_the_reason_comes_before_the_received_value():
    with pytest.raises(ValueError, match="at least 2, because one has no spread. Received"):
        check_integer("samples", 1, low=2, why="because one has no spread")


def test_a_choice_is_one_of_those_listed():
    assert check_choice("way", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="`way` must be one of 'a', 'b'. Received: way='c'"):
        check_choice("way", "c", ("a", "b"))


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
        ValueError, match=r"L must be at least 0 and below 3, .* Received: -1, 3, 7$"
    ):
        check_class_range("L", labels, 3)
    with pytest.raises(ValueError, match=r"or -1 if unknown. Received: 3, 7$"):
        check_class_range("L", labels, 3, unknown=-1)
    with pytest.raises(ValueError, match=r"Received: 10, 11, 12, 13, 14, ...$"):
        check_class_range("L", np.arange(20), 10)
    check_class_range("L", labels, 8, unknown=-1)
    check_class_range("L", np.array([]), 1)
