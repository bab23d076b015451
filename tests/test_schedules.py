import json
import math

import keras
import numpy as np
import pytest

from dann.schedules import Constant, GaninDecay, GaninSchedule, StrengthSchedule, WarmStart
from dann.schedules.learning_rates import ScaledSchedule

SCHEDULES = [
    Constant(0.3),
    GaninSchedule(total_steps=100, gamma=5.0, high=0.2),
    WarmStart(low=0.1, high=0.5, alpha=2.0, steps=50),
]


def test_all_schedules_are_in_the_table():
    package_schedules = {
        s for s in StrengthSchedule.__subclasses__() if s.__module__ == StrengthSchedule.__module__
    }
    assert {type(schedule) for schedule in SCHEDULES} == package_schedules


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_schedules_survive_json(schedule):
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    assert keras.saving.deserialize_keras_object(config) == schedule


# Functions of the step divided by 1000.
FORMULAS = [
    (
        GaninSchedule(total_steps=1000, gamma=7.0, high=0.4),
        lambda p: 0.4 * (2 / (1 + math.exp(-7 * min(p, 1))) - 1),
    ),
    (
        WarmStart(low=0.2, high=0.9, alpha=1.5, steps=1000),
        lambda p: 0.2 + (0.9 - 0.2) * (2 / (1 + math.exp(-1.5 * p)) - 1),
    ),
    (GaninDecay(0.01, total_steps=1000), lambda p: 0.01 / (1 + 10 * p) ** 0.75),
]


@pytest.mark.parametrize("step", [0, 1, 250, 999, 1000, 5000])
@pytest.mark.parametrize(("schedule", "formula"), FORMULAS)
def test_schedule_follows_the_formula(schedule, formula, step):
    assert float(schedule(step)) == pytest.approx(formula(step / 1000), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("rate", "rates"),
    [
        (GaninDecay(0.5, total_steps=1, alpha=1.0, beta=1.0), (0.5, 0.25)),
        (ScaledSchedule(keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5), 4.0), (2.0, 1.0)),
    ],
)
def test_decays_drive_an_optimizer_and_survive_json(rate, rates):
    optimizer = keras.optimizers.SGD(rate)
    weight = keras.Variable(np.zeros(()))
    for _ in range(2):
        optimizer.apply([keras.ops.ones(())], [weight])
    assert float(keras.ops.convert_to_numpy(weight)) == pytest.approx(-sum(rates))
    config = json.loads(json.dumps(optimizer.get_config()))
    restored = keras.optimizers.SGD.from_config(config)
    assert float(restored.learning_rate) == pytest.approx(rates[0])


REFUSED = {  # a function, and words of the error
    "run length": (lambda: GaninSchedule(0), "total_steps=0"),
    "steepness": (lambda: GaninSchedule(10, gamma=-1), "gamma=-1"),
    "order": (lambda: WarmStart(low=0.5, high=0.1), "high=0.1"),
    "infinite": (lambda: Constant(float("inf")), "finite.*value=inf"),
    "rate": (lambda: GaninDecay(0.0), "initial_learning_rate=0.0"),
    "factor": (lambda: ScaledSchedule(GaninDecay(), 0), "factor=0"),
    "number": (lambda: ScaledSchedule(0.1, 10.0), "Keras schedule. Received: 0.1"),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_are_refused(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()
