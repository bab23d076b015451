import dataclasses

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
    ("change", "message"),
    [
        ({"target_train": IMAGES[:0]}, "The target train set of a → b is empty"),
        ({"target_train": IMAGES[:, :3]}, r"Received: target train with \(3, 4, 1\) of uint8"),
        ({"target_test": (IMAGES.astype("float32"), LABELS)}, "target test with .* of float32"),
        ({"source_test": (IMAGES, LABELS[:2])}, "source test set .*6 inputs and 2 labels"),
        ({"num_classes": 2}, r"source train set must be .* num_classes=2. Received: \[2\]"),
        (
            {"target_test": (IMAGES, LABELS + 1)},
            r"target test set .*num_classes=3. Received: \[3\]",
        ),
    ],
)
def test_domains_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PAIR, **change)
