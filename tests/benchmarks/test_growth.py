"""The power with which times grow, of times that are known."""

import numpy as np
import pytest

from benchmarks.record import joined
from benchmarks.suites.growth import GrowthSuite
from benchmarks.timing import Comparison, Times


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_power_is_that_of_the_times(power):
    sizes = [10, 20, 80]
    seconds = {f"{size}": 0.3 * np.array([size**power, 2 * size**power]) for size in sizes}
    times = {name: Times(cpu=one, wall=2 * one) for name, one in seconds.items()}
    assert Comparison("batch", times, sizes=sizes).remark.endswith(
        f"power {power:.2f} ({power:.2f} to {power:.2f})"
    )


def test_the_power_of_several_processes_is_their_median():
    def process(*seconds):
        times = {str(size): Times(*np.full((2, 1), one)) for size, one in enumerate(seconds)}
        return [Comparison("batch", times, sizes=[1, 10])]

    (of_all,) = joined([process(1, 100), process(1, 1), process(3, 30)])
    assert of_all.remark.endswith("power 1.00 (0.00 to 2.00)")


def test_a_step_and_an_epoch_of_each_size_are_timed():
    suite = GrowthSuite(batch_sizes=(4, 8), examples=(64, 128), steps=2, rounds=1)
    batch = suite._by_size("batch", suite.batch_sizes, suite._step_of_batch, units=2)
    data = suite._by_size("data", suite.examples, suite._epoch)
    assert list(batch.times) == ["4", "8"]
    assert list(data.times) == ["64", "128"]
    assert data.times["128"].cpu[0] > batch.times["4"].cpu[0] > 0  # two steps, and one


def test_one_size_shows_no_growth():
    with pytest.raises(ValueError, match=r"`devices` must hold at least two.*Received: \[2\]"):
        GrowthSuite(devices=[2])
