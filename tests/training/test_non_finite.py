import keras
import numpy as np
import pytest

from dann.adaptation import DANN
from dann.data import pair
from dann.networks import domain_head
from dann.training.stops import StopOnNonFinite, describe_broken_weights

INPUTS = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
LABELS = (INPUTS[:, 0] > 0).astype(int)


def dann(optimizer=None, dtype="float32", **compiled):
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(dtype)
    entry = keras.Input((3,))
    backbone = keras.Model(entry, keras.layers.Dense(4, name="features")(entry))
    model = DANN(backbone, num_classes=2, domain_head=domain_head(4, hidden_units=[]))
    model.compile(optimizer or keras.optimizers.SGD(0.1), **compiled)
    return model


def fit(model, *callbacks, epochs=2):
    pairs = pair((INPUTS, LABELS), INPUTS, batch_size=4, repeat=True, seed=0)
    settings = {"steps_per_epoch": 8, "shuffle": False, "verbose": 0}
    return model.fit(pairs, epochs=epochs, callbacks=list(callbacks), **settings)


class BreakAt(keras.callbacks.Callback):
    """Sets a weight to NaN after a step."""

    def __init__(self, step):
        super().__init__()
        self.step, self.count = step, 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == self.step:
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            self.model.domain_head.weights[0].assign(np.full((4, 1), np.nan))


CASES = [(1, 3, "domain/loss is nan, loss is"), (4, 1, ".*kernel has values that are NaN")]


@pytest.mark.parametrize(("steps_per_execution", "broken_call", "cause"), CASES)
def test_training_stops_within_the_interval(steps_per_execution, broken_call, cause):
    breaker = BreakAt(broken_call)
    model = dann(steps_per_execution=steps_per_execution)
    words = f"^The training of DANN stopped at step 4: {cause}.* a lower strength of the reversal"
    with pytest.raises(FloatingPointError, match=words) as error:
        fit(model, breaker, StopOnNonFinite(every_n_steps=2))
    assert breaker.count * steps_per_execution == 4
    assert "\n" not in str(error.value)


def test_weights_broken_in_the_last_step_are_not_saved(tmp_path):
    """The losses of the epoch are finite, and the file of the previous epoch remains."""
    file = tmp_path / "last.keras"
    saves = keras.callbacks.ModelCheckpoint(file)
    with pytest.raises(FloatingPointError, match=r"step 16: .*kernel has values that are NaN or"):
        fit(dann(), BreakAt(16), StopOnNonFinite(), saves)
    saved = keras.models.load_model(file)
    assert int(saved.optimizer.iterations) == 8
    assert not describe_broken_weights(saved)


def test_steps_skipped_by_loss_scaling_are_no_error():
    inner = keras.optimizers.SGD(0.01)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**127)
    model = dann(optimizer, dtype="mixed_float16")
    fit(model, StopOnNonFinite(every_n_steps=1))
    assert int(inner.iterations) < 16  # some were skipped
    assert not describe_broken_weights(model)
