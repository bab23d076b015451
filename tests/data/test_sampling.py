"""Batches are a function of the seed and the step: on every backend, in every process."""

import hashlib
import itertools

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies

from dann.data import pair
from dann.data.sampling import Sampler

PINNED = ["0ce5c215d27d32c1", "11832e0e9a2a5cce", "8439d298964b9a22"]
GROUPS = np.repeat([0, 1, 2], [80, 16, 4])


def drawn(order, first, last):
    return order.examples(np.arange(first, last))


settings = hypothesis.settings(max_examples=20, deadline=None, derandomize=True)
GROUPINGS = strategies.integers(1, 40) | strategies.lists(
    strategies.integers(0, 4), min_size=1, max_size=40
).map(np.array)


@settings
@hypothesis.given(GROUPINGS, strategies.booleans(), strategies.integers(0, 2**31))
def test_each_group_is_drawn_once_a_round_and_each_example_once_a_pass(groups, shuffle, seed):
    sampler = Sampler(groups, shuffle, seed, domain=0)
    count = len(sampler.members)
    largest = max(map(len, sampler.members))
    chosen = drawn(sampler, 0, 2 * largest * count).reshape(-1, count)
    group_of = np.empty(sum(map(len, sampler.members)), int)
    for group, members in enumerate(sampler.members):
        group_of[members] = group
    rounds = np.tile(np.arange(count), (2 * largest, 1))
    np.testing.assert_array_equal(np.sort(group_of[chosen]), rounds)
    for group, members in enumerate(sampler.members):
        its = chosen[group_of[chosen] == group]
        for one_pass in its[: len(its) // len(members) * len(members)].reshape(-1, len(members)):
            np.testing.assert_array_equal(np.sort(one_pass), members)


@settings
@hypothesis.given(
    GROUPINGS,
    strategies.integers(0, 2**31),
    strategies.lists(strategies.tuples(strategies.integers(0, 900), strategies.integers(1, 100))),
)
def test_an_order_may_be_read_from_anywhere_in_pieces_of_any_size(groups, seed, pieces):
    whole = drawn(Sampler(groups, True, seed, domain=1), 0, 1000)
    sampler = Sampler(groups, True, seed, domain=1)
    for first, length in pieces:
        found = drawn(sampler, first, first + length)
        np.testing.assert_array_equal(found, whole[first : first + length])


def test_seeds_and_domains_have_orders_of_their_own():
    keys = itertools.product((0, 1), (0, 1))
    assert len({tuple(drawn(Sampler(50, True, *key), 0, 50)) for key in keys}) == 4


def test_the_order_is_about_uniform():
    first = [drawn(Sampler(5, True, seed, 0), 0, 1)[0] for seed in range(1000)]
    counts = np.bincount(first, minlength=5)
    assert (abs(counts - 200) < 5 * np.sqrt(160)).all(), counts  # five standard deviations


def batches(**kwargs):
    """Source of three domains with classes, target, labelled target: all that a batch may hold."""
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 255, (100, 4), "uint8")
    labels = np.arange(100) % 5
    arguments = {"batch_size": 13, "repeat": True, "seed": 7, **kwargs}
    return pair(
        (inputs, labels, rng.random(100)),
        rng.integers(0, 255, (30, 4), "uint8"),
        target_labelled=(inputs[:7], labels[:7]),
        source_domain=GROUPS,
        balanced=True,
        **arguments,
    )


def digest(values):
    found = hashlib.sha256()
    for leaf in keras.tree.flatten(values):
        found.update(
            f"{leaf.dtype.str} {leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes()
        )
    return found.hexdigest()[:16]


def test_the_batches_of_a_seed_are_these_on_every_backend():
    """Computed once, on TensorFlow; a training that goes on elsewhere must find the same."""
    pairs = batches()
    assert [digest(pairs[step]) for step in (0, 1, 1000)] == PINNED


@pytest.mark.parametrize("num_processes", [1, 2, 3])
def test_the_parts_of_the_processes_are_the_batch(num_processes):
    parts = [batches(process_id=p, num_processes=num_processes) for p in range(num_processes)]
    for step in (0, 5, 77):
        inputs, labels, weights = batches()[step]
        found = [part[step] for part in parts]
        for name, whole in inputs.items():
            np.testing.assert_array_equal(np.concatenate([one[0][name] for one in found]), whole)
        counts = [len(one[0]["source"]) for one in found]
        assert max(counts) - min(counts) <= 1
        for place, whole in ((1, labels), (2, weights)):
            first = np.concatenate([one[place][:n] for one, n in zip(found, counts, strict=True)])
            rest = np.concatenate([one[place][n:] for one, n in zip(found, counts, strict=True)])
            np.testing.assert_array_equal(np.concatenate([first, rest]), whole)


def test_pairs_start_at_any_step():
    pairs = batches()
    expected = [digest(batch) for batch in itertools.islice(pairs, 6)]
    pairs.start = 4
    assert [digest(pairs[0]), digest(pairs[1])] == expected[4:]
    with pytest.raises(ValueError, match="start=-1"):
        pairs.start = -1


def test_epochs_go_on_where_the_last_one_ended():
    finite, endless = batches(repeat=False), batches()
    assert len(finite) == 100 // 13
    found = [digest(batch) for _ in range(3) for batch in finite]
    assert found == [digest(batch) for batch in itertools.islice(endless, 21)]
    assert finite.start == 21


class Trace(keras.layers.Layer):
    """Passes its inputs on and keeps a number that tells which batches came, and in which order."""

    def build(self, shape):
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        if training:
            self.seen.assign(0.5 * self.seen + keras.ops.mean(inputs[:, 0]))
        return inputs

    def compute_output_shape(self, shape):
        return shape


def pairs_of(values, **kwargs):
    return pair((values, np.arange(20) % 2), values, 6, seed=2, **kwargs)


def trace_of(values, parts):
    expected = 0.0
    for inputs, _ in itertools.islice(pairs_of(values, repeat=True), 18):
        expected = 0.5 * expected + np.mean([row for part in parts for row in inputs[part]])
    return expected


@pytest.mark.parametrize(
    ("fits", "repeat"),
    [
        ([{"epochs": 6}], False),
        ([{"epochs": 1}, {"epochs": 5}], False),
        ([{"epochs": 9, "steps_per_epoch": 2}], False),
        ([{"epochs": 2, "steps_per_epoch": 9}], True),
    ],
    ids=["one fit", "two fits", "short epochs", "endless pairs"],
)
def test_fit_sees_the_batches_of_its_steps_in_order(fits, repeat):
    import dann

    values = np.random.default_rng(0).random((20, 1), "float32")
    trace, images = Trace(), keras.Input((1,))
    model = dann.DANN(keras.Model(images, trace(images)), num_classes=2)
    model.compile("sgd")
    pairs = pairs_of(values, repeat=repeat)
    for arguments in fits:
        model.fit(pairs, verbose=0, **arguments)
    np.testing.assert_allclose(trace.seen, trace_of(values, ("source", "target")), rtol=1e-5)
    assert pairs.start == (0 if repeat else 18)
    model.evaluate(pairs, steps=1, verbose=0)
    assert pairs.start == (0 if repeat else 18)


def test_a_plain_keras_model_sees_them_in_order_without_shuffling():
    values = np.random.default_rng(0).random((20, 1), "float32")
    trace = Trace()
    inputs = {name: keras.Input((1,), name=name) for name in ("source", "target")}
    outputs = keras.layers.Dense(1)(keras.layers.add([trace(inputs["source"]), inputs["target"]]))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    pairs = pairs_of(values)
    model.fit(pairs, epochs=6, shuffle=False, verbose=0)
    np.testing.assert_allclose(trace.seen, trace_of(values, ("source",)), rtol=1e-5)
    assert pairs.start == 18
