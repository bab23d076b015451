"""Datasets of batches, which `pair` reads in order."""

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies

from dann.adaptation import DANN
from dann.data import pair

X = np.arange(10.0, dtype="float32")[:, np.newaxis]
Y = np.arange(10) % 3
TARGET = 100 + X[:5]


def loader():
    torch = pytest.importorskip("torch")
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    return torch.utils.data.DataLoader(tensors, batch_size=4)


def tf_data():
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)


class ArrayBatches(keras.utils.PyDataset):
    """Two batches of 5 examples, with a length, which count the calls of their hooks."""

    calls = 0

    def on_epoch_begin(self):
        self.calls += 1

    on_epoch_end = on_epoch_begin  # often shuffles

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[5 * index : 5 * index + 5], Y[5 * index : 5 * index + 5]


class Batches:
    """An iterable of batches without a length, which can be read again."""

    def __init__(self, rows=(range(7), range(7, 10))):
        self.rows = rows

    def __iter__(self):
        return iter([(X[rows], Y[rows]) for rows in self.rows])


LENGTHS = {ArrayBatches: 2, Batches: None, loader: 3, tf_data: 3}


@pytest.mark.parametrize(("make", "length"), LENGTHS.items())
def test_dataset_is_read_in_order(make, length):
    dataset = make()
    pairs = pair(dataset, dataset, 4)
    assert pairs.num_batches == length
    pairs[0]  # Keras looks at the first batches before it trains
    for step in range(5):
        inputs, labels = pairs[step]
        expected = np.arange(4 * step, 4 * step + 4) % 10
        np.testing.assert_array_equal(inputs["source"], X[expected])
        np.testing.assert_array_equal(inputs["target"], X[expected])
        np.testing.assert_array_equal(labels, Y[expected])
    assert getattr(dataset, "calls", 6) == 6  # by each domain: begin, end, begin
    with pytest.raises(ValueError, match="because of `start=3`. Received: a dataset"):
        pairs.start = 3
    with pytest.raises(ValueError, match="only be read in order.*batch 9 after 5 batches"):
        pairs[9]


@pytest.mark.parametrize("make", [Batches, lambda: iter(list(Batches()) * 9)])
def test_each_fit_restarts_a_dataset(make):
    # Keras reads ahead, in a thread that may outlive the call.
    model = DANN(keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)]), num_classes=3)
    model.compile("sgd")
    pairs = pair(make(), TARGET, 4)
    for _ in range(3):
        assert len(model.fit(pairs, epochs=2, steps_per_epoch=2, verbose=0).history["loss"]) == 2
    np.testing.assert_array_equal(pairs[0][1], Y[:4])


@hypothesis.settings(max_examples=20, deadline=None, derandomize=True)
@hypothesis.given(
    strategies.lists(strategies.integers(1, 5), min_size=1, max_size=4), strategies.integers(1, 7)
)
def test_batches_are_cut_to_one_size(sizes, batch_size):
    limits = np.cumsum(sizes)
    rows = np.arange(limits[-1]) % 10
    pairs = pair(Batches(np.split(rows, limits[:-1])), TARGET, batch_size, repeat=True)
    for step in range(6):
        expected = rows[np.arange(step * batch_size, (step + 1) * batch_size) % limits[-1]]
        np.testing.assert_array_equal(pairs[step][0]["source"], X[expected])
        np.testing.assert_array_equal(pairs[step][1], Y[expected])


def test_inputs_may_be_nested():
    images = {"image": X, "meta": [X, X.astype("int32")]}
    part = {"image": TARGET, "meta": [TARGET, TARGET.astype("int32")]}
    inputs, labels = pair((images, Y), (part, Y[:5]), 4, seed=0)[0]
    np.testing.assert_array_equal(Y[inputs["source"]["image"][:, 0].astype(int)], labels)
    np.testing.assert_array_equal(inputs["source"]["meta"][1], inputs["source"]["image"])
    assert inputs["target"]["meta"][1].dtype == np.int32


@pytest.mark.parametrize("shape", [(6,), (6, 4, 4)])
def test_weights_per_example_or_per_map_label(shape):
    images, maps = np.ones((6, 4, 4, 1)), np.arange(6 * 16).reshape(6, 4, 4)
    weights = np.random.default_rng(0).uniform(size=shape)
    labeled = {"target_labeled": (images, maps, np.ones(shape))}
    _, labels, weights_read = pair((images, maps, weights), images, 6, seed=0, **labeled)[0]
    assert (labels.shape, weights_read.dtype) == ((12, 4, 4), np.float32)
    np.testing.assert_allclose(weights_read[:6], weights[labels[:6, 0, 0] // 16], rtol=1e-6)
    np.testing.assert_array_equal(weights_read[6:], np.ones(shape))


def test_generator_provides_one_pass():
    pairs = pair(((X[i : i + 2], Y[i : i + 2]) for i in range(0, 10, 2)), TARGET, 4)
    np.testing.assert_array_equal(np.concatenate([pairs[i][1] for i in range(2)]), Y[:8])
    with pytest.raises(ValueError, match="can be read only once"):
        pairs[2]
