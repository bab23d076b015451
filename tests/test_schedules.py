import json
import math

import keras
import numpy as np
import pytest

from dann.schedules import Constant, GaninDecay, GaninSchedule, Scaled, StrengthSchedule, WarmStart

SCHEDULES = [
    Constant(0.3),
    GaninSchedule(total_steps=100, gamma=5.0, high=0.2),
    WarmStart(low=0.1, high=0.5, alpha=2.0, steps=50),
]


def test_every_schedule_is_tested():
    ours = {
        s for s in StrengthSchedule.__subclasses__() if s.__module__ == StrengthSchedule.__module__
    }
    assert {type(schedule) for schedule in SCHEDULES} == ours


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_schedule_comes_back_from_json(schedule):
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    assert keras.saving.deserialize_keras_object(config) == schedule


class Own(StrengthSchedule):
    """A user's, which keeps its argument as it came."""

    def __init__(self, value):
        self.value = value

    def __call__(self, step):
        return self.value

    def get_config(self):
        return {"value": self.value}


def test_schedules_are_equal_by_their_arguments():
    assert Own(1) == Own(1.0)
    assert len({Own(1), Own(1.0), Own(2)}) == 2
    assert Own(0.3) != Constant(0.3)


@pytest.mark.parametrize("step", [0, 1, 250, 999, 1000, 5000])
def test_ganin_schedule_follows_its_formula(step):
    progress = min(step / 1000, 1.0)
    expected = 0.4 * (2 / (1 + math.exp(-7 * progress)) - 1)
    schedule = GaninSchedule(total_steps=1000, gamma=7.0, high=0.4)
    assert float(schedule(step)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("step", [0, 1, 1000, 5000, 20_000])
def test_warm_start_follows_its_formula(step):
    expected = 2 * (0.9 - 0.2) / (1 + math.exp(-1.5 * step / 1000)) - (0.9 - 0.2) + 0.2
    schedule = WarmStart(low=0.2, high=0.9, alpha=1.5, steps=1000)
    assert float(schedule(step)) == pytest.approx(expected, abs=1e-6)


def test_constant_never_changes():
    assert [float(Constant(0.25)(step)) for step in (0, 7, 10**9)] == [0.25] * 3


@pytest.mark.parametrize("step", [0, 10, 1000])
def test_ganin_decay_follows_its_formula(step):
    expected = 0.01 / (1 + 10 * step / 1000) ** 0.75
    assert float(GaninDecay(0.01, total_steps=1000)(step)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("rate", "rates"),
    [
        (GaninDecay(0.5, total_steps=1, alpha=1.0, beta=1.0), (0.5, 0.25)),
        (Scaled(keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5), 4.0), (2.0, 1.0)),
    ],
)
def test_a_decay_drives_an_optimizer_and_comes_back(rate, rates):
    optimizer = keras.optimizers.SGD(rate)
    weight = keras.Variable(np.zeros(()))
    for _ in range(2):
        optimizer.apply([keras.ops.ones(())], [weight])
    assert float(keras.ops.convert_to_numpy(weight)) == pytest.approx(-sum(rates))
    config = json.loads(json.dumps(optimizer.get_config()))
    again = keras.optimizers.SGD.from_config(config)
    assert float(again.learning_rate) == pytest.approx(rates[0])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: GaninSchedule(0), ValueError),
        (lambda: GaninSchedule(10, gamma=-1), ValueError),
        (lambda: WarmStart(low=0.5, high=0.1), ValueError),
        (lambda: Constant(float("inf")), ValueError),
        (lambda: GaninDecay(0.0), ValueError),
        (lambda: Scaled(GaninDecay(), 0), ValueError),
        (lambda: Scaled(0.1, 10.0), TypeError),
    ],
)
def test_bad_values_are_refused(make, error):
    with pytest.raises(error):
        make()
