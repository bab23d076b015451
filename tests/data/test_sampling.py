"""Batches depend on the seed and the step alone, on every backend and in every process."""

import hashlib
import itertools

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies

from dann.adaptation import DANN
from dann.data import pair, tensorflow_pairs
from dann.data.sampling import Sampler

settings = hypothesis.settings(max_examples=20, deadline=None, derandomize=True)
GROUPINGS = strategies.integers(1, 40) | strategies.lists(
    strategies.integers(0, 4), min_size=1, max_size=40
).map(np.array)


@settings
@hypothesis.given(GROUPINGS, strategies.booleans(), strategies.integers(0, 2**31))
def test_rounds_cover_groups_and_passes_cover_examples(groups, shuffle, seed):
    sampler = Sampler(groups, shuffle, seed, domain=0)
    count = len(sampler.members)
    largest = max(map(len, sampler.members))
    indices = sampler.examples(np.arange(2 * largest * count)).reshape(-1, count)
    group_of = np.concatenate([np.full(len(m), g) for g, m in enumerate(sampler.members)])
    group_of = group_of[np.argsort(np.concatenate(sampler.members))]
    rounds = np.tile(np.arange(count), (2 * largest, 1))
    np.testing.assert_array_equal(np.sort(group_of[indices]), rounds)
    for group, members in enumerate(sampler.members):
        repeats = indices[group_of[indices] == group]
        passes = repeats[: len(repeats) // len(members) * len(members)].reshape(-1, len(members))
        np.testing.assert_array_equal(np.sort(passes, axis=1), np.tile(members, (len(passes), 1)))


@settings
@hypothesis.given(
    GROUPINGS,
    strategies.integers(0, 2**31),
    strategies.lists(strategies.tuples(strategies.integers(0, 900), strategies.integers(1, 100))),
)
def test_order_can_be_read_from_any_position(groups, seed, pieces):
    sequence = Sampler(groups, True, seed, domain=1).examples(np.arange(1000))
    sampler = Sampler(groups, True, seed, domain=1)
    for first, length in pieces:
        indices = sampler.examples(np.arange(first, first + length))
        np.testing.assert_array_equal(indices, sequence[first : first + length])


def batches(**kwargs):
    """Returns pairs whose batches contain every kind of entry."""
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 255, (100, 4), "uint8")
    labels = np.arange(100) % 5
    labeled = inputs[:7], labels[:7], np.ones(7)
    defaults = {"batch_size": 13, "repeat": True, "seed": 7, "target_labeled": labeled}
    return pair(
        (inputs, labels, rng.random(100)),
        rng.integers(0, 255, (30, 4), "uint8"),
        source_domain=np.repeat([0, 1, 2], [80, 16, 4]),
        balanced=True,
        **{**defaults, **kwargs},
    )


def digest(values):
    checksum = hashlib.sha256()
    for leaf in keras.tree.flatten(values):
        checksum.update(f"{leaf.dtype.str} {leaf.shape}".encode() + leaf.tobytes())
    return checksum.hexdigest()[:16]


def test_batches_of_a_seed_are_pinned():
    # Computed once, on TensorFlow; a run that resumes elsewhere must read the same batches.
    pairs = batches()
    digests = [digest(pairs[step]) for step in (0, 1, 1000)]
    assert digests == ["0ce5c215d27d32c1", "11832e0e9a2a5cce", "8439d298964b9a22"]


@pytest.mark.parametrize("num_processes", [2, 3])
def test_process_parts_form_the_batch(num_processes):
    shared = {"num_processes": num_processes, "target_labeled": None}
    parts = [batches(process_id=p, **shared) for p in range(num_processes)]
    for step in (0, 5, 77):
        pieces = [part[step] for part in parts]
        joined = keras.tree.map_structure(lambda *leaves: np.concatenate(leaves), *pieces)
        assert digest(joined) == digest(batches(target_labeled=None)[step])
        counts = [len(labels) for _, labels, _ in pieces]
        assert max(counts) - min(counts) <= 1


def test_epochs_continue_and_start_sets_the_step():
    finite, endless = batches(repeat=False), batches()
    assert len(finite) == 100 // 13
    expected = [digest(batch) for batch in itertools.islice(endless, 21)]
    assert [digest(batch) for _ in range(3) for batch in finite] == expected
    assert finite.start == 21
    endless.start = 4
    assert digest(endless[1]) == expected[5]
    with pytest.raises(ValueError, match="start=-1"):
        endless.start = -1


class Trace(keras.layers.Layer):
    """Identity that accumulates a number that depends on the batches and their order."""

    def build(self, shape):
        self.trace = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        if training:
            self.trace.assign(0.5 * self.trace + keras.ops.mean(inputs[:, 0]))
        return inputs

    def compute_output_shape(self, shape):
        return shape


class StopAtSecondStep(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        self.model.stop_training = batch == 1


EARLY_STOP = [{"callbacks": StopAtSecondStep()}, {"epochs": 4, "steps_per_epoch": 4}]
FITS = {
    "stopped early": (EARLY_STOP, False, 1000),
    "two fits": ([{"epochs": 1}, {"epochs": 5}], False, 1000),
    "short epochs": ([{"epochs": 9, "steps_per_epoch": 2}], False, 1000),
    "endless pairs": ([{"epochs": 2, "steps_per_epoch": 9}], True, 1000),
    "too large for TensorFlow": ([{"epochs": 1}, {"epochs": 5}], False, 0),
}


@pytest.mark.parametrize(("fits", "repeat", "max_bytes"), FITS.values(), ids=FITS)
def test_fit_reads_batches_in_order(fits, repeat, max_bytes, monkeypatch):
    values = np.random.default_rng(0).random((20, 1), "float32")
    trace, images = Trace(), keras.Input((1,))
    model = DANN(keras.Model(images, trace(images)), num_classes=2)
    model.compile("sgd")
    pairs = pair((values, np.arange(20) % 2), values, 6, seed=2, repeat=repeat)
    if keras.backend.backend() == "tensorflow":
        monkeypatch.setattr(tensorflow_pairs, "_MAX_BYTES", max_bytes)
        assert (tensorflow_pairs.as_tensorflow_dataset(pairs) is None) == (max_bytes == 0)
    expected = 0.0
    for inputs, _ in itertools.islice(pairs.repeat(), 18):
        expected = 0.5 * expected + np.mean([inputs["source"], inputs["target"]])
    for arguments in fits:
        model.fit(pairs, verbose=0, **arguments)
    np.testing.assert_allclose(trace.trace, expected, rtol=1e-5)
    assert pairs.start == (0 if repeat else 18)
    model.evaluate(pairs, steps=1, verbose=0)
    assert pairs.start == (0 if repeat else 18)
