"""Batches that TensorFlow gathers are those of the pairs."""

import itertools

import keras
import numpy as np
import pytest

from dann.adaptation import DANN
from dann.data import pair
from dann.data.tensorflow_pairs import in_tensorflow
from dann.networks import mlp_backbone

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype("float32")
Y = np.arange(20) % 3
TARGET = RNG.normal(size=(7, 3)).astype("float32")
DOMAINS = np.arange(20) % 2
NESTED = {"image": RNG.integers(0, 255, (20, 2, 2), dtype=np.uint8), "more": [X, X.astype("f8")]}
OTHERS = {"image": NESTED["image"][:9], "more": [X[:9], X[:9].astype("f8")]}
CASES = {
    "shuffled": ((X, Y), TARGET, {}),
    "in order": ((X, Y), TARGET, {"shuffle": False}),
    "without end": ((X, Y), TARGET, {"repeat": True}),
    "balanced": ((X, Y), TARGET, {"balanced": True}),
    "several sources": ((X, Y), TARGET, {"source_domain": DOMAINS}),
    "weights": ((X, Y, np.linspace(0, 1, 20)), TARGET, {}),
    "nested": ((NESTED, np.eye(3)[Y]), OTHERS, {}),
    "small numbers": ((X.astype("f2"), Y.astype("u2")), TARGET.astype("f2"), {}),
}


def flat(batch):
    return [np.asarray(leaf) for leaf in keras.tree.flatten(batch)]


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize(("source", "target", "options"), CASES.values(), ids=CASES)
def test_batches_are_those_of_the_pairs(source, target, options, start):
    pairs = pair(source, target, 4, seed=3, **options)
    pairs.start = start
    endless = pairs.endless()
    dataset = in_tensorflow(pairs)
    for step, batch in enumerate(itertools.islice(dataset, 150)):  # more than are chosen at once
        expected = endless[step]
        keras.tree.assert_same_structure(batch, expected)
        for mine, its in zip(flat(batch), flat(expected), strict=True):
            np.testing.assert_array_equal(mine, its)
            assert mine.dtype == its.dtype
    assert pairs.start == start


def test_a_model_gets_what_keras_makes_of_the_pairs():
    adapter = keras.src.trainers.data_adapters.py_dataset_adapter.PyDatasetAdapter
    for source, target, options in CASES.values():
        pairs = pair(source, target, 4, seed=3, **options).endless()
        keras_own = adapter(pairs, shuffle=False).get_tf_dataset().element_spec
        mine = in_tensorflow(pairs).element_spec
        keras.tree.assert_same_structure(mine, keras_own)
        for one, its in zip(keras.tree.flatten(mine), keras.tree.flatten(keras_own), strict=True):
            assert one.dtype == its.dtype
            assert one.shape[1:] == its.shape[1:]


class Rows:
    """An array-like that is no array."""

    shape, dtype = X.shape, X.dtype

    def __len__(self):
        return len(X)

    def __getitem__(self, chosen):
        return X[chosen]


@pytest.mark.parametrize(
    ("source", "target", "options"),
    [
        ((Rows(), Y), TARGET, {}),
        ((X, Y), iter([TARGET]), {}),
        ((X, Y), TARGET, {"target_labelled": (X[:5], Y[:5])}),
        ((X, Y), TARGET, {"num_processes": 2}),
        ((X.astype(">f4"), Y), TARGET.astype(">f4"), {}),
    ],
    ids=["no array", "a stream", "a labelled target", "several processes", "another byte order"],
)
def test_what_it_does_not_know_is_left_to_python(source, target, options):
    assert in_tensorflow(pair(source, target, 4, seed=0, **options)) is None


def test_large_arrays_are_not_held_twice(monkeypatch):
    pairs = pair((X, Y), TARGET, 4, seed=0)
    size = X.nbytes + Y.nbytes + TARGET.nbytes
    for largest, fits in ((size, True), (size - 1, False)):
        monkeypatch.setattr("dann.data.tensorflow_pairs._LARGEST", largest)
        assert (in_tensorflow(pairs) is not None) == fits


@pytest.mark.parametrize(("repeat", "start"), [(True, 0), (False, 10)])
def test_a_training_moves_the_start_as_without(repeat, start):
    model = DANN(mlp_backbone((3,), hidden_units=(4,)), num_classes=3)
    model.compile("sgd")
    pairs = pair((X, Y), TARGET, 4, seed=3, repeat=repeat)
    model.fit(pairs, epochs=2, steps_per_epoch=5, verbose=0)
    assert pairs.start == start


def test_a_training_is_that_of_the_batches_by_python(monkeypatch):
    weights = []
    for largest in (2**28, 0):
        monkeypatch.setattr("dann.data.tensorflow_pairs._LARGEST", largest)
        keras.utils.set_random_seed(0)
        model = DANN(mlp_backbone((3,), hidden_units=(4,)), num_classes=3)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
        model.fit(pair((X, Y), TARGET, 4, seed=3), epochs=3, verbose=0)
        weights.append(model.get_weights())
    for mine, its in zip(*weights, strict=True):
        np.testing.assert_array_equal(mine, its)
