import dataclasses
import itertools

import numpy as np
import pytest

from dann.data import DomainPair

IMAGES = np.zeros((6, 4, 4, 1), "uint8")
LABELS = np.arange(6) % 3
PAIR = DomainPair(
    source="a",
    target="b",
    source_train=(IMAGES, LABELS),
    source_test=(IMAGES, LABELS),
    target_train=IMAGES,
    target_test=(IMAGES, LABELS),
    num_classes=3,
)


def test_batches_hold_no_target_labels():
    inputs, labels = next(iter(PAIR.batches(batch_size=2)))
    assert set(inputs) == {"source", "target"}
    assert labels.shape == (2,)
    assert PAIR.input_shape == (4, 4, 1)
    assert PAIR.name == "a → b"


@pytest.mark.parametrize(
    "change",
    [
        {"target_train": IMAGES[:0]},
        {"target_train": IMAGES[:, :3]},
        {"target_test": (IMAGES.astype("float32"), LABELS)},
        {"source_test": (IMAGES, LABELS[:2])},
        {"num_classes": 2},
        {"target_test": (IMAGES, LABELS + 1)},
        {"target_test": (IMAGES[:0], None)},
        {"target_labelled": (IMAGES, LABELS + 1)},
        {"target_train_labels": LABELS[:2]},
        {"class_names": ("a",)},
    ],
)
def test_domains_that_do_not_fit_are_refused(change):
    with pytest.raises(ValueError, match="Received"):
        dataclasses.replace(PAIR, **change)


def with_oracle(labels=LABELS):
    images = np.arange(6, dtype="uint8")[:, None, None, None] + IMAGES
    return dataclasses.replace(PAIR, target_train=images, target_train_labels=labels)


def test_labels_of_the_oracle_reach_no_batch():
    """What training gets does not change with them."""
    first, other = with_oracle(), with_oracle(LABELS[::-1].copy())
    for one, two in zip(
        itertools.islice(first.batches(2, seed=1), 5),
        itertools.islice(other.batches(2, seed=1), 5),
        strict=True,
    ):
        for name in ("source", "target"):
            np.testing.assert_array_equal(one[0][name], two[0][name])
        np.testing.assert_array_equal(one[1], two[1])


def test_the_oracle_trains_on_the_target():
    oracle = with_oracle().oracle()
    for inputs, labels in itertools.islice(oracle.batches(3, seed=0), 4):
        np.testing.assert_array_equal(labels, LABELS[inputs["source"][:, 0, 0, 0]])
    assert oracle.source_test is PAIR.target_test
    assert oracle.name == "b (labelled) → b"


def test_the_oracle_leaves_out_unknown_labels():
    oracle = with_oracle(np.array([0, -1, 2, -1, 1, 2])).oracle()
    np.testing.assert_array_equal(oracle.source_train[0][:, 0, 0, 0], [0, 2, 4, 5])
    np.testing.assert_array_equal(oracle.source_train[1], [0, 2, 1, 2])


def test_a_few_target_labels_may_be_learnt_from():
    domains = with_oracle().with_target_labelled(per_class=1, seed=3)
    images, labels = domains.target_labelled
    np.testing.assert_array_equal(np.sort(labels), [0, 1, 2])
    np.testing.assert_array_equal(labels, LABELS[images[:, 0, 0, 0]])
    inputs, batch_labels = next(iter(domains.batches(2)))
    assert set(inputs) == {"source", "target", "target_labelled"}
    assert batch_labels.shape == (4,)
    again = with_oracle().with_target_labelled(per_class=1, seed=3).target_labelled
    np.testing.assert_array_equal(images, again[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: PAIR.oracle(),
        lambda: with_oracle(LABELS * 0 - 1).oracle(),
        lambda: dataclasses.replace(with_oracle(), target_test=(IMAGES, None)).oracle(),
        lambda: PAIR.with_target_labelled(1),
        lambda: with_oracle().with_target_labelled(3),
        lambda: with_oracle().with_target_labelled(0),
    ],
)
def test_an_oracle_without_labels_is_refused(call):
    with pytest.raises(ValueError, match="Received"):
        call()


def test_a_test_set_comes_in_order_and_whole():
    images = np.arange(6, dtype="uint8")[:, None, None, None] + IMAGES
    domains = dataclasses.replace(PAIR, target_test=(images, LABELS))
    batches = list(domains.test_batches("target", 4))
    assert [len(labels) for _, labels in batches] == [4, 2]
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), LABELS)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in batches]), images)
