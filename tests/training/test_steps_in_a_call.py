import keras
import numpy as np
import pytest

from dann import DANN, training
from dann.config.schema import TrainerConfig
from dann.data import pair
from dann.networks import cnn_backbone, mlp_backbone, mnist_backbone
from dann.schedules import GaninSchedule
from dann.training.steps_in_a_call import steps_in_a_call

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


def chosen(model=None, intervals=(), **trainer):
    model = model or DANN(mlp_backbone((4,)), num_classes=3)
    settings = {"steps": 200, "steps_per_execution": "auto", **trainer}
    return steps_in_a_call(model, TrainerConfig(**settings), intervals)


@pytest.mark.skipif(not ON_TENSORFLOW, reason="elsewhere every step is a call of its own")
@pytest.mark.parametrize(
    ("trainer", "intervals", "steps"),
    [
        ({}, (), 10),  # of 100 steps an epoch and 50 between checks
        ({"check_every": 100}, (), 20),
        ({"steps": 60, "steps_per_epoch": 100, "check_every": 60}, (), 20),
        ({"check_every": 1}, (), 1),
        ({"steps_per_epoch": 97, "steps": 97}, (), 1),
        ({}, (30, 8), 2),
        ({"run_eagerly": True}, (), 1),
    ],
)
def test_it_divides_the_epoch_and_whatever_acts_between_calls(trainer, intervals, steps):
    assert chosen(intervals=intervals, **trainer) == steps


@pytest.mark.skipif(not ON_TENSORFLOW, reason="elsewhere every step is a call of its own")
def test_a_call_stays_below_half_a_second_of_a_core():
    paper = DANN(mnist_backbone((28, 28, 3)), num_classes=10)
    # 1.3 million products an example in three convolutions and dense layers, 2.6 GFLOP a step
    assert chosen(paper) == 5
    assert chosen(paper, batch_size=1024) == 1


def test_a_model_of_unknown_size_takes_a_step_at_a_time():
    unbuilt = DANN(keras.Sequential([keras.layers.Dense(4)]), num_classes=3)
    assert chosen(unbuilt) == 1
    entry = keras.Input((7, 2))
    recurrent = DANN(keras.Model(entry, keras.layers.GRU(3)(entry)), num_classes=3)
    assert chosen(recurrent) == 1


@pytest.mark.skipif(ON_TENSORFLOW, reason="where several steps save time")
def test_elsewhere_every_step_is_a_call_of_its_own():
    assert chosen() == 1


def test_a_number_is_taken_as_it_is():
    assert chosen(steps_per_execution=4) == 4


@pytest.mark.skipif(not ON_TENSORFLOW, reason="elsewhere every step is a call of its own")
def test_the_weights_are_those_of_steps_one_by_one():
    def trained(steps_per_execution):
        training.start(seed=3)
        rng = np.random.default_rng(0)
        x, y = rng.uniform(size=(40, 8, 8, 1)).astype("float32"), np.arange(40) % 3
        hidden = cnn_backbone((8, 8, 1), filters=(4,), units=5)
        backbone = keras.Sequential([hidden, keras.layers.Dropout(0.3)])
        model = DANN(backbone, num_classes=3, strength=GaninSchedule(total_steps=20))
        settings = TrainerConfig(20, 10, None, 4, steps_per_execution, check_every=10)
        training.compile_model(model, keras.optimizers.Adam(0.01), settings)
        pairs = pair((x, y), 1 - x, batch_size=4, seed=0, repeat=True)
        history = model.fit(pairs, epochs=2, steps_per_epoch=10, verbose=0)
        return model, history.history

    (one, logs), (several, others) = trained(1), trained("auto")
    assert (one.steps_per_execution, several.steps_per_execution) == (1, 10)
    for value, expected in zip(several.variables, one.variables, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert others == logs
