import time

import numpy as np
import pytest

from benchmarks.timing import Comparison, Times, in_turns, table


def test_ways_take_turns_after_one_call_each_that_does_not_count():
    calls = []
    ways = {name: lambda name=name: calls.append(name) for name in "ab"}
    times = in_turns(ways, rounds=3)
    assert calls == list("abababab")
    assert {name: of_way.cpu.shape for name, of_way in times.items()} == {"a": (3,), "b": (3,)}


def test_without_a_warm_up_every_call_counts():
    calls = []
    in_turns({"a": lambda: calls.append("a")}, rounds=2, warm_up=False)
    assert calls == ["a", "a"]


def test_a_turn_lasts_as_long_as_it_must_and_times_are_those_of_one_unit():
    calls = []

    def call():
        calls.append(0)
        time.sleep(0.002)

    times = in_turns({"a": call}, rounds=1, seconds=0.5, units=4, warm_up=False)["a"]
    assert len(calls) > 1
    assert 0.002 / 4 <= times.wall[0] < 0.5 / 4
    assert times.cpu[0] < times.wall[0]  # sleep needs no processor


def test_what_begins_a_turn_is_not_timed():
    begun = []

    def begin(way):
        begun.append(way)
        time.sleep(0.02)
        return lambda: None

    assert in_turns({"a": "the way"}, rounds=2, begin=begin, warm_up=False)["a"].wall.max() < 0.02
    assert begun == ["the way", "the way"]


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"units": 0}, {"seconds": -1.0}], ids=str)
def test_a_value_out_of_range_raises_an_error(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}={value}"):
        in_turns({}, **{"rounds": 1, **wrong})


def test_ratios_are_paired_by_round_and_the_table_has_their_median_and_range():
    def of(*cpu):
        return Times(np.array(cpu), np.array(cpu) + 1)

    times = {"rival": of(4.0, 9.0, 2.0), "ours": of(1.0, 3.0, 2.0)}
    comparison = Comparison("a task", times, "ours", {"rival": "8 bytes"}, (), "all of it")
    np.testing.assert_array_equal(comparison.ratios("rival"), [4.0, 3.0, 1.0])
    head, rival, ours, remark = table([comparison]).splitlines()
    assert head.split() == ["a", "task", "CPU", "ms", "wall", "ms", "times", "(range)"]
    assert rival.split() == ["rival", "2000.000", "3000.000", "3.00", "(1.00-4.00)", "8", "bytes"]
    assert ours.split()[-2:] == ["1.00", "(1.00-1.00)"]
    assert remark == "all of it"
