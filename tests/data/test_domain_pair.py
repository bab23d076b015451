import dataclasses
import itertools

import numpy as np

from dann.data import DomainPair
from dann.data.lazy_array import LazyArray

IMAGES = np.arange(6, dtype="uint8")[:, None, None, None] + np.zeros((6, 4, 4, 1), "uint8")
LABELS = np.arange(6) % 3
PAIR = DomainPair("a", "b", (IMAGES, LABELS), (IMAGES, LABELS), IMAGES, (IMAGES, LABELS), 3)


def with_oracle(labels=LABELS):
    return dataclasses.replace(PAIR, target_train_labels=labels)


def test_oracle_labels_reach_no_batch():
    assert (PAIR.input_shape, PAIR.name) == ((4, 4, 1), "a → b")
    first, reversed_pair = with_oracle(), with_oracle(LABELS[::-1].copy())
    batches = zip(first.batches(2, seed=1).repeat(), reversed_pair.batches(2, seed=1), strict=False)
    for (inputs, labels), (inputs_again, labels_again) in itertools.islice(batches, 5):
        assert inputs.keys() == {"source", "target"}
        for name, images in inputs.items():
            np.testing.assert_array_equal(images, inputs_again[name])
        np.testing.assert_array_equal(labels, labels_again)


def test_oracle_trains_on_known_target_labels():
    oracle = with_oracle(np.array([0, -1, 2, -1, 1, 2])).oracle()
    np.testing.assert_array_equal(oracle.source_train[0][:, 0, 0, 0], [0, 2, 4, 5])
    np.testing.assert_array_equal(oracle.source_train[1], [0, 2, 1, 2])
    assert oracle.source_test is PAIR.target_test
    assert oracle.name == "b (labeled) → b"


def test_labeled_target_examples_are_drawn():
    domains = with_oracle().with_target_labeled(per_class=1, seed=3)
    images, labels = domains.target_labeled
    np.testing.assert_array_equal(np.sort(labels), [0, 1, 2])
    np.testing.assert_array_equal(labels, LABELS[images[:, 0, 0, 0]])
    inputs, batch_labels = domains.batches(2)[0]
    assert set(inputs) == {"source", "target", "target_labeled"}
    assert batch_labels.shape == (4,)
    again = with_oracle().with_target_labeled(per_class=1, seed=3).target_labeled
    np.testing.assert_array_equal(images, again[0])
    for seed in range(5):  # two of two rows per class: each row once
        two, _ = with_oracle().with_target_labeled(per_class=2, seed=seed).target_labeled
        np.testing.assert_array_equal(np.sort(two[:, 0, 0, 0]), np.arange(6))


def test_identity_differs_for_other_examples_alone():
    images = np.random.default_rng(0).uniform(size=(80, 4, 4, 1))

    def identify(inputs):
        domain = (inputs, np.arange(len(inputs)) % 3)
        return DomainPair("a", "b", domain, domain, inputs, domain, 3).identity["target"]

    identity = identify(images)
    for others in (images[:-1], images[::-1].copy(), np.roll(images, 1, axis=0)):
        assert not np.allclose(identify(others), identity, rtol=1e-6)
    lazy = LazyArray(images.shape, images.dtype, lambda rows: images[rows] * (1 + 1e-9))
    np.testing.assert_allclose(identify(lazy), identity, rtol=1e-6)
    texts = np.array([[f"text {number}"] for number in range(80)])
    assert identify(texts) != identify(texts[::-1].copy())
