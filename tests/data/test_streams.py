"""Datasets of batches, which `pair` reads in order."""

import itertools

import hypothesis
import keras
import numpy as np
import pytest
from array_batches import ArrayBatches
from hypothesis import strategies

from dann.adaptation import DANN
from dann.data import pair
from dann.data.examples import as_array

X = np.arange(10.0, dtype="float32")[:, np.newaxis]
Y = np.arange(10) % 3
TARGET = 100 + X[:5]


def loader():
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    return torch.utils.data.DataLoader(dataset, batch_size=4)


def tf_data():
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)


class Batches:
    """An iterable of batches that gives a new iterator each time, and does not tell how many."""

    def __iter__(self):
        return iter([(X[:7], Y[:7]), (X[7:], Y[7:])])


READ_IN_ORDER = {
    "a PyDataset": lambda: ArrayBatches(X, Y),
    "a list of batches behind an iterable": Batches,
    "a DataLoader": loader,
    "tf.data": tf_data,
}


@pytest.mark.parametrize("make", READ_IN_ORDER.values(), ids=READ_IN_ORDER)
def test_a_dataset_gives_its_examples_in_order_pass_after_pass(make):
    given = make()
    pairs = pair(given, given, 4, repeat=True)
    for step, (inputs, labels) in enumerate(itertools.islice(pairs, 7)):
        expected = np.arange(4 * step, 4 * step + 4) % 10
        np.testing.assert_array_equal(inputs["source"], X[expected])
        np.testing.assert_array_equal(inputs["target"], X[expected])
        np.testing.assert_array_equal(labels, Y[expected])


@pytest.mark.parametrize("make", READ_IN_ORDER.values(), ids=READ_IN_ORDER)
def test_a_dataset_cannot_start_later_or_be_split_and_its_length_sets_the_epoch(make):
    given = make()
    pairs = pair(given, TARGET, 4)
    assert pairs.num_batches == {Batches: None}.get(make, 3 if make in (loader, tf_data) else 2)
    for _ in range(2):  # Keras looks at the first batches before it trains
        np.testing.assert_array_equal(pairs[0][1], pairs[0][1])
        pairs[1]
    with pytest.raises(ValueError, match="source is a dataset .*Received: start=3"):
        pairs.start = 3
    with pytest.raises(ValueError, match="source is a dataset .*Received: num_processes=2"):
        pair(given, TARGET, 4, num_processes=2)
    with pytest.raises(ValueError, match="only be read in order.*batch 9 after 2 batches"):
        pairs[9]


def test_a_generator_gives_one_pass():
    pairs = pair(((X[i : i + 2], Y[i : i + 2]) for i in range(0, 10, 2)), TARGET, 4)
    assert pairs.num_batches is None
    np.testing.assert_array_equal(np.concatenate([pairs[i][1] for i in range(2)]), Y[:8])
    with pytest.raises(ValueError, match="source holds no examples, or can be read only once"):
        pairs[2]


@hypothesis.settings(max_examples=20, deadline=None, derandomize=True)
@hypothesis.given(
    strategies.lists(strategies.integers(1, 5), min_size=1, max_size=4), strategies.integers(1, 7)
)
def test_batches_of_any_size_are_cut_to_one(sizes, batch_size):
    ends = np.cumsum(sizes)
    rows = np.split(np.arange(ends[-1], dtype="float32"), ends[:-1])
    given = type("Given", (), {"__iter__": lambda self: iter([(r[:, None], r) for r in rows])})()
    pairs = pair(given, TARGET, batch_size, repeat=True)
    for step in range(6):
        expected = np.arange(step * batch_size, (step + 1) * batch_size) % ends[-1]
        np.testing.assert_array_equal(pairs[step][1], expected)


def test_inputs_may_be_nested():
    images = {"image": X, "meta": [X, X.astype("int32")]}
    part = {"image": TARGET, "meta": [TARGET, TARGET.astype("int32")]}
    for target in (part, (part, Y[:5])):
        inputs, labels = pair((images, Y), target, 4, seed=0)[0]
        np.testing.assert_array_equal(Y[inputs["source"]["image"][:, 0].astype(int)], labels)
        np.testing.assert_array_equal(inputs["source"]["meta"][1], inputs["source"]["image"])
        assert inputs["target"]["meta"][1].dtype == np.int32
    two = X[:5], X[:5] + 1
    for target in (list(two), (two, None), (two, Y[:5])):
        inputs, _ = pair(((X, X + 1), Y), target, 4, seed=0)[0]
        np.testing.assert_array_equal(inputs["target"][0] + 1, inputs["target"][1])


def test_weights_follow_their_examples():
    weights = Y / 2
    extra = X[:2], Y[:2]
    for inputs, labels, found in pair((X, Y, weights), TARGET, 4, target_labelled=extra):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found[:4], labels[:4] / 2)
        np.testing.assert_array_equal(found[4:], np.ones(4))
        assert len(inputs["source"]) == 4


@pytest.mark.parametrize("shape", [(6,), (6, 4, 4)])
def test_weights_are_those_of_examples_or_of_the_labels_of_a_map(shape):
    images, maps = np.ones((6, 4, 4, 1)), np.arange(96).reshape(6, 4, 4) % 3
    weights = np.random.default_rng(0).uniform(size=shape)
    labelled = {"target_labelled": (images, maps)}
    _, labels, found = pair((images, maps, weights), images, 6, shuffle=False, **labelled)[0]
    assert labels.shape == (12, 4, 4)
    np.testing.assert_allclose(found[:6], weights, rtol=1e-6)
    np.testing.assert_array_equal(found[6:], np.ones(shape))


def test_a_small_source_sets_the_batch_size_if_none_is_given():
    assert pair((X, Y), TARGET).batch_size == 10
    assert pair((np.zeros((100, 1)), np.zeros(100, int)), np.zeros((5, 1))).batch_size == 64


@pytest.mark.parametrize(
    ("backend", "make"),
    [("jax.numpy", "asarray"), ("tensorflow", "convert_to_tensor"), ("torch", "as_tensor")],
)
def test_tensors_are_arrays(backend, make):
    found = as_array(getattr(pytest.importorskip(backend), make)(X), "source")
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, X)


def test_columns_of_a_frame_are_numbers_of_any_type():
    pandas = pytest.importorskip("pandas")
    made = pandas.DataFrame({"whole": pandas.array([1, 2], dtype="Int64"), "part": [0.5, 1.5]})
    made["flag"] = [True, False]
    found = as_array(made, "source")
    np.testing.assert_array_equal(found, [[1, 0.5, 1], [2, 1.5, 0]])


@pytest.mark.tensorflow
def test_lists_of_inputs_and_strings_go_through_fit():
    class Both(keras.Model):
        def __init__(self):
            super().__init__()
            self.words = keras.layers.TextVectorization(vocabulary=["a"], output_sequence_length=2)
            self.embedding = keras.layers.Embedding(4, 3)

        def call(self, inputs):
            numbers, text = inputs
            embedded = keras.ops.mean(self.embedding(self.words(text)), axis=1)
            return keras.ops.concatenate([numbers, embedded], axis=-1)

    texts = np.array([["a a"], ["b"], ["a bbb"]])
    inputs = [X[:3].astype("float32"), texts]
    symbols = [keras.Input((1,)), keras.Input((1,), dtype="string")]
    model = DANN(keras.Model(symbols, Both()(symbols)), num_classes=2)
    model.compile("sgd", jit_compile=False)
    longer = [inputs[0], np.array([["a longer text"], ["b"], ["a"]])]
    model.fit(pair((inputs, [0, 1, 0]), longer, 3), verbose=0)
    assert model.feature_shape[-1] == X.shape[1] + 3
