"""Datasets that `pair` reads in order, and those that it reads by index."""

import itertools

import keras
import numpy as np
import pytest

from dann.adaptation import DANN
from dann.data import pair, streams
from dann.data.whole_domain import all_inputs, first_inputs

X = np.arange(10.0, dtype="float32")[:, np.newaxis]
Y = np.arange(10) % 3
TARGET = 100 + X[:5]


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return X[3 * i : 3 * i + 3], Y[3 * i : 3 * i + 3]


class Items:
    def __len__(self):
        return 10

    def __getitem__(self, i):
        if not 0 <= i < 10:
            raise IndexError(i)
        return X[i], Y[i]


def loader(**kwargs):
    torch = pytest.importorskip("torch")
    return torch.utils.data.DataLoader(Items(), **kwargs)


def grain_map(batch_size=None, repeat=False):
    grain = pytest.importorskip("grain")
    dataset = grain.MapDataset.source([(X[i], Y[i]) for i in range(10)])
    dataset = dataset if batch_size is None else dataset.batch(batch_size)
    return dataset.repeat() if repeat else dataset


def tf_data(batch_size=None):
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.from_tensor_slices((X, Y))
    return dataset if batch_size is None else dataset.batch(batch_size)


READ_IN_ORDER = {
    "a PyDataset": Batches,
    "a function that gives examples": lambda: lambda: zip(X, Y, strict=True),
    "a function that gives batches": lambda: lambda: iter([(X[:7], Y[:7]), (X[7:], Y[7:])]),
    "a DataLoader": lambda: loader(batch_size=4),
    "a DataLoader of examples": lambda: loader(batch_size=None),
    "a grain MapDataset of batches": lambda: grain_map(4),
    "a grain IterDataset of examples": lambda: grain_map().to_iter_dataset(),
    "a grain IterDataset of batches": lambda: grain_map(4).to_iter_dataset(),
    "tf.data of batches": lambda: tf_data(4),
    "tf.data of examples": tf_data,
}


@pytest.mark.parametrize("make", READ_IN_ORDER.values(), ids=READ_IN_ORDER)
def test_a_dataset_gives_its_examples_in_order_pass_after_pass(make):
    given = make()
    pairs = pair(given, given, 4, shuffle=False, repeat=True)
    for step, (inputs, labels) in enumerate(itertools.islice(pairs, 7)):
        expected = np.arange(4 * step, 4 * step + 4) % 10
        np.testing.assert_array_equal(inputs["source"], X[expected])
        np.testing.assert_array_equal(inputs["target"], X[expected])
        np.testing.assert_array_equal(labels, Y[expected])
    assert len(pair(given, TARGET, 4)) == 2


@pytest.mark.parametrize("make", READ_IN_ORDER.values(), ids=READ_IN_ORDER)
def test_a_dataset_that_is_read_in_order_cannot_start_later_or_be_split(make):
    given = make()
    pairs = pair(given, TARGET, 4)
    for _ in range(2):  # Keras looks at the first batches before it trains
        np.testing.assert_array_equal(pairs[0][1], pairs[0][1])
        pairs[1]
    with pytest.raises(ValueError, match="source is a dataset .*Received: start=3"):
        pairs.start = 3
    with pytest.raises(ValueError, match="source is a dataset .*Received: num_processes=2"):
        pair(given, TARGET, 4, num_processes=2)
    with pytest.raises(ValueError, match="only be read in order.*batch 9 after 2 batches"):
        pairs[9]


@pytest.mark.parametrize("make", [Items, grain_map])
def test_a_dataset_that_is_read_by_index_is_shuffled_resumed_and_split_as_arrays_are(make):
    by_index, arrays = (pair(given, TARGET, 4, seed=1) for given in (make(), (X, Y)))
    for pairs in (by_index, arrays):
        pairs.start = 7
    for mine, its in zip(by_index, arrays, strict=True):
        np.testing.assert_array_equal(mine[0]["source"], its[0]["source"])
        np.testing.assert_array_equal(mine[1], its[1])
    part = pair(make(), TARGET, 4, seed=1, process_id=1, num_processes=2)[3]
    np.testing.assert_array_equal(part[1], pair((X, Y), TARGET, 4, seed=1)[3][1][2:])


@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_grain_dataset_without_end_is_read_in_order(batch_size):
    endless = grain_map(batch_size, repeat=True)
    pairs = pair(endless, endless, 4)
    assert pairs.num_batches is None
    for step, (inputs, labels) in enumerate(itertools.islice(pairs, 7)):
        expected = np.arange(4 * step, 4 * step + 4) % 10
        np.testing.assert_array_equal(inputs["target"], X[expected])
        np.testing.assert_array_equal(labels, Y[expected])


def test_a_tf_dataset_of_examples_is_shuffled_by_the_seed_in_each_pass():
    orders = [
        [labels.tolist() for _, labels in itertools.islice(pair(tf_data(), TARGET, 5, seed=s), 4)]
        for s in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    pairs = pair(tf_data(), TARGET, 10, seed=1, repeat=True)
    assert not np.array_equal(pairs[0][1], pairs[1][1])
    np.testing.assert_array_equal(np.bincount(pairs[1][1]), np.bincount(Y))


def test_an_iterator_gives_one_pass():
    pairs = pair(iter(zip(X, Y, strict=True)), TARGET, 4, repeat=True)
    np.testing.assert_array_equal(np.concatenate([pairs[i][1] for i in range(2)]), Y[:8])
    with pytest.raises(ValueError, match="source cannot be read again; give a function"):
        pairs[2]


def test_reading_without_end_is_told(monkeypatch):
    monkeypatch.setattr(streams, "_PATIENCE", 0)

    def endless():
        yield from itertools.islice(itertools.cycle(zip(X, Y, strict=True)), 100)

    with pytest.warns(UserWarning, match="source is read to its end; .*repeat=True.*come in 0"):
        pair(endless, TARGET, 4)
    with pytest.warns(UserWarning, match="target is read to its end; .*itertools.islice"):
        all_inputs(endless)
    pair(endless, TARGET, 4, repeat=True)[0]
    first_inputs(endless, None, most=3)  # not to its end


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (lambda: iter([]), TARGET, "The source holds no examples"),
        (lambda: iter(X), TARGET, r"source must give `\(input, label\)`.*Received: ndarray"),
        (lambda: zip(X, Y, strict=True), lambda: iter([]), "The target holds no examples"),
        (lambda: zip(X, Y, strict=True), [X[:, :0]], "Received: a list of 1"),
        ("photos/", TARGET, r"must be `\(inputs, labels\)`.*Received: str"),
        ((X, Y, Y, Y), TARGET, "Received: a tuple of 4"),
        ((X, Y.astype(str)), TARGET, r"np.unique\(labels, return_inverse=True\).*such as '0'"),
        (([[1.0], [2.0, 3.0]], [0, 1]), TARGET, "rows of one length; .*Received: a list of rows"),
        (([np.ones(2), np.ones(3)], [0, 1]), TARGET, r"pad_sequences.*3 inputs"),
        (([np.ones(3), np.ones(3)], [0, 1]), TARGET, r"numpy.asarray\(rows\)` makes.*3 inputs"),
        ((X, Y, [-1.0, *[1.0] * 9]), TARGET, r"source must be finite and at least 0.*: -1.0$"),
        ((X, Y, [np.nan, *[1.0] * 9]), TARGET, r"finite and at least 0.*Received: nan$"),
        ((X, Y, np.zeros(10)), TARGET, r"some above 0. Received: zeros alone$"),
        ((X, {"y": Y}), TARGET, "The source's labels must be given as arrays. Received: dict"),
        ((X, Y, X), TARGET, r"one weight for each example.*weights of shape \(10, 1\)"),
        (({"a": X, "b": X[:3]}, Y), TARGET, "all arrays one length. Received: 10 "),
    ],
)
def test_what_is_no_domain_is_refused(source, target, message):
    with pytest.raises(ValueError, match=message):
        pair(source, target, 4)


def test_inputs_may_be_nested():
    images = {"image": X, "meta": [X, X.astype("int32")]}
    part = {"image": TARGET, "meta": [TARGET, TARGET.astype("int32")]}
    for target in (part, (part, Y[:5])):
        inputs, labels = pair((images, Y), target, 4, seed=0)[0]
        np.testing.assert_array_equal(Y[inputs["source"]["image"][:, 0].astype(int)], labels)
        np.testing.assert_array_equal(inputs["source"]["meta"][1], inputs["source"]["image"])
        assert inputs["target"]["meta"][1].dtype == np.int32
    with pytest.raises(ValueError, match="one shape and type. Received: .*float32.*float64"):
        pair((images, Y), {**part, "image": TARGET.astype("float64")}, 4)


def test_weights_follow_their_examples():
    weights = Y / 2
    extra = X[:2], Y[:2]
    for inputs, labels, found in pair((X, Y, weights), TARGET, 4, target_labelled=extra):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found[:4], labels[:4] / 2)
        np.testing.assert_array_equal(found[4:], np.ones(4))
        assert len(inputs["source"]) == 4


class Frame:
    """What `pair` uses of a frame of pandas or polars, whose `[...]` does not choose rows."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype

    def to_numpy(self):
        return self.values


def test_a_frame_is_an_array():
    inputs, labels = pair((Frame(X), Frame(Y)), Frame(X), 4, seed=0)[0]
    np.testing.assert_array_equal(Y[inputs["source"][:, 0].astype(int)], labels)


def test_the_columns_of_a_frame_are_numbers_of_any_type():
    pandas = pytest.importorskip("pandas")
    made = pandas.DataFrame({"whole": pandas.array([1, 2], dtype="Int64"), "part": [0.5, 1.5]})
    inputs, _ = pair((made, pandas.Series([0, 1])), made, 2, shuffle=False)[0]
    np.testing.assert_array_equal(inputs["source"], [[1, 0.5], [2, 1.5]])
    for column, kind in ((["a", "b"], "str"), (pandas.array([1, None], "Int64"), "NAType")):
        wrong = made.assign(more=column)
        with pytest.raises(ValueError, match=f"get_dummies.*makes numbers.*Received: .*{kind}"):
            pair((wrong, pandas.Series([0, 1])), wrong, 2)


def test_a_small_source_sets_the_batch_size_if_none_is_given():
    assert pair((X, Y), TARGET).batch_size == 10
    assert pair((np.zeros((100, 1)), np.zeros(100, int)), np.zeros((5, 1))).batch_size == 64


def test_a_dataset_of_dicts_is_told_how_to_give_inputs_and_labels():
    examples = [{"image": X[0], "label": 1}, {"image": X[1], "label": 0}]
    with pytest.raises(ValueError, match=r"lambda one: \(one\['image'\], one\['label'\]\).*a dict"):
        pair(iter(examples), X)


def test_labels_that_are_strings_are_told_how_to_be_numbered_wherever_they_come_from():
    for label in ("cat", b"cat", np.array(["cat", "dog"])):
        several = np.ndim(label) > 0
        with pytest.raises(
            ValueError, match=r"np.unique\(labels, return_inverse=True\).*'cat'|b'cat"
        ):
            pair(iter([(X[:2] if several else X[0], label)] * 3), X)


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
    model = DANN(Both(), num_classes=2)
    model.compile("sgd", jit_compile=False)
    longer = [inputs[0], np.array([["a longer text"], ["b"], ["a"]])]
    model.fit(pair((inputs, [0, 1, 0]), longer, 3), verbose=0)
    assert model.num_features == X.shape[1] + 3
