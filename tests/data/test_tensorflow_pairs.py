"""Batches that TensorFlow gathers equal the batches of pairs."""

import itertools

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal

from dann.adaptation import DANN
from dann.data import pair
from dann.data.lazy_array import LazyArray
from dann.data.tensorflow_pairs import as_tensorflow_dataset
from dann.networks import mlp_backbone

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype("float32")
Y = np.arange(20) % 3
TARGET = RNG.normal(size=(7, 3)).astype("float32")
NESTED = {"image": RNG.integers(0, 255, (20, 2, 2), dtype=np.uint8), "more": [X, X.astype("f8")]}
OTHERS = {"image": NESTED["image"][:9], "more": [X[:9], X[:9].astype("f8")]}
CASES = {
    "shuffled": ((X, Y), TARGET, {}),
    "in order": ((X, Y), TARGET, {"shuffle": False, "repeat": True}),
    "balanced": ((X, Y), TARGET, {"balanced": True}),
    "several sources": ((X, Y), TARGET, {"source_domain": np.arange(20) % 2}),
    "weights": ((X, Y, np.linspace(0, 1, 20)), TARGET, {}),
    "nested": ((NESTED, np.eye(3)[Y]), OTHERS, {}),
    "small numbers": ((X.astype("f2"), Y.astype("u2")), TARGET.astype("f2"), {}),
}


def assert_same(tensor, array):
    np.testing.assert_array_equal(tensor, array)
    assert (tensor.dtype.as_numpy_dtype, tuple(tensor.shape)) == (array.dtype, array.shape)


@pytest.mark.parametrize(("source", "target", "options"), CASES.values(), ids=CASES)
def test_dataset_equals_pairs(source, target, options):
    pairs = pair(source, target, 4, seed=3, **options)
    pairs.start = 5
    endless, dataset = pairs.repeat(), as_tensorflow_dataset(pairs)
    for step, batch in enumerate(itertools.islice(dataset, 100)):  # more than one block
        expected = endless[step]
        keras.tree.map_structure(assert_same, batch, expected)
    assert pairs.start == 5


@pytest.mark.parametrize(
    ("source", "target", "options"),
    [
        ((LazyArray(X.shape, X.dtype, X.__getitem__), Y), TARGET, {}),
        ((X, Y), iter([TARGET]), {}),
        ((X, Y), TARGET, {"target_labeled": (X[:5], Y[:5])}),
        ((X, Y), TARGET, {"num_processes": 2}),
        ((X.astype(">f4"), Y), TARGET.astype(">f4"), {}),
    ],
)
def test_unsupported_pairs_have_no_dataset(source, target, options):
    assert as_tensorflow_dataset(pair(source, target, 4, seed=0, **options)) is None


def test_training_equals_training_on_python_batches(monkeypatch):
    """TensorFlow does not copy arrays above the limit, so Python reads their batches."""
    size, weights = X.nbytes + Y.nbytes + TARGET.nbytes, []
    for largest in (size, size - 1):
        monkeypatch.setattr("dann.data.tensorflow_pairs._MAX_BYTES", largest)
        keras.utils.set_random_seed(0)
        model = DANN(mlp_backbone((3,), hidden_units=(4,)), num_classes=3)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
        pairs = pair((X, Y), TARGET, 4, seed=3)
        assert (as_tensorflow_dataset(pairs) is None) == (largest < size)
        model.fit(pairs, epochs=3, verbose=0)
        assert pairs.start == 15
        weights.append(model.get_weights())
    assert_all_equal(*weights)
