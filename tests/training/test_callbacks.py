import csv
import time

import keras
import numpy as np
import pytest

from dann.training import RunDirectory
from dann.training.callbacks import Clock, OracleCurve

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

INPUTS = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
LABELS = (INPUTS[:, 0] > 0).astype(int)


def small_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=["accuracy"])
    return model


class Sleep(keras.callbacks.Callback):
    def __init__(self, batch=0.0, epoch=0.0):
        super().__init__()
        self.batch, self.epoch = batch, epoch

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(self.batch)

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(self.epoch)


def test_the_clock_counts_steps_and_not_what_follows_an_epoch():
    model, clock = small_model(), Clock()
    model.fit(INPUTS, LABELS, verbose=0)  # traced
    callbacks = [clock, Sleep(batch=0.05, epoch=1.0)]
    model.fit(INPUTS, LABELS, batch_size=4, epochs=2, callbacks=callbacks, verbose=0)
    assert 8 * 0.05 <= clock.seconds < 8 * 0.05 + 1.5  # without the two seconds
    assert 0 < clock.cpu_seconds < clock.seconds + 1


def test_the_curve_holds_the_accuracy_after_each_epoch_and_enters_no_logs(tmp_path):
    model, clock = small_model(), Clock()
    expected = []

    class Accuracy(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logits = keras.ops.convert_to_numpy(self.model(INPUTS))
            expected.append(np.mean(logits.argmax(axis=1) == LABELS))

    target = tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(5)
    curve = OracleCurve(target, RunDirectory(tmp_path), clock)
    history = model.fit(
        INPUTS,
        LABELS,
        batch_size=4,
        epochs=3,
        callbacks=[clock, Accuracy(), curve],
        verbose=0,
    ).history
    assert set(history) == {"loss", "accuracy"}
    with (tmp_path / "oracle.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [4, 8, 12]
    assert [float(row["target/accuracy"]) for row in rows] == pytest.approx(expected)
    seconds = [float(row["cpu_seconds"]) for row in rows]
    assert seconds == sorted(seconds)
