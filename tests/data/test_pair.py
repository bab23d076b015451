import itertools
import json

import keras
import numpy as np
import pandas
import pytest

import dann
from dann.data import pair
from dann.data.lazy_array import LazyArray
from dann.data.tensorflow_pairs import as_tensorflow_dataset

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SOURCE = np.arange(10.0)[:, np.newaxis], np.arange(10) % 3
TARGET = 100 + np.arange(4.0)[:, np.newaxis]
DATASET = tf.data.Dataset.from_tensor_slices(SOURCE).batch(3)
EXTRA = 200 + np.arange(4.0)[:, np.newaxis], np.array([2, 0, 1, 1])


@pytest.mark.parametrize("target", [(TARGET, np.zeros(4)), (TARGET, None), DATASET])
def test_target_labels_are_dropped(target):
    inputs, labels = pair(SOURCE, target, batch_size=2)[0]
    assert set(inputs) == {"source", "target"}
    assert (inputs["target"].shape, labels.shape) == ((2, 1), (2,))


@pytest.mark.parametrize("shape", [(10,), (10, 1)])
def test_continuous_labels_are_unchanged(shape):
    labels = (0.1 * SOURCE[0] - 0.25).astype("float32").reshape(shape)
    batches = tf.data.Dataset.from_tensor_slices((SOURCE[0], labels)).batch(4)
    extra = EXTRA[0], np.full((4, *shape[1:]), 0.75, "float32")
    for source in ((SOURCE[0], labels), batches):
        inputs, batch_labels = pair(source, TARGET, 4, target_labeled=extra)[0]
        assert (batch_labels.dtype, batch_labels.shape) == (np.float32, (8, *shape[1:]))
        expected = 0.1 * inputs["source"][:, 0] - 0.25
        np.testing.assert_allclose(batch_labels.ravel(), [*expected, *[0.75] * 4], rtol=1e-5)


def test_lists_and_frames_become_arrays():
    inputs, _ = pair((SOURCE[0].tolist(), SOURCE[1].tolist()), TARGET[:1].tolist(), 2)[0]
    np.testing.assert_array_equal(inputs["target"], TARGET[[0, 0]])
    frame = pandas.DataFrame({"age": [1.0, 2.0], "height": [3.0, 4.0]})
    labels = pandas.Series([0, 1], index=[5, 6])
    inputs, batch_labels = pair((frame, labels), (frame, labels), 2, shuffle=False)[0]
    np.testing.assert_array_equal(inputs["target"], frame)
    np.testing.assert_array_equal(batch_labels, labels)


def test_endless_pairs_need_a_number_of_steps():
    source = np.ones((8, 2), "float32"), np.arange(8) % 2
    endless = tf.data.Dataset.from_tensor_slices(source).batch(3).repeat()
    model = dann.DANN(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    model.compile("sgd")
    for pairs in (pair(source, source[0], 4, repeat=True), pair(endless, source[0], 4)):
        with pytest.raises(TypeError, match="pass `steps_per_epoch`"):
            len(pairs)
        for call in (model.fit, model.evaluate):
            with pytest.raises(ValueError, match="number of steps"):
                call(pairs, verbose=0)
        assert len(model.fit(pairs, steps_per_epoch=3, verbose=0).history["loss"]) == 1


def test_identity_differs_for_other_settings_and_examples():
    def identity(source=SOURCE, target=TARGET, size=4, **arguments):
        return pair(source, target, size, **{"seed": 0, **arguments}).identity

    changes = [{"size": 5}, {"seed": 1}, {"shuffle": False}, {"balanced": True}]
    changes += [{"target": TARGET[:3]}, {"source": (SOURCE[0] + 1, SOURCE[1])}]
    changes += [{"source": (SOURCE[0], SOURCE[1][::-1])}]
    assert identity() == identity() == json.loads(json.dumps(identity()))
    assert all(identity(**change) != identity() for change in changes)


def test_only_the_rows_of_batches_are_read():
    counts = []

    def read(rows):
        counts.append(len(rows))
        return SOURCE[0][rows]

    inputs = LazyArray(SOURCE[0].shape, SOURCE[0].dtype, read)
    for batch, labels in pair((inputs, np.arange(10)), TARGET, batch_size=3, seed=0):
        np.testing.assert_array_equal(batch["source"][:, 0], labels)
    assert counts == [3, 3, 3]


def test_labeled_target_follows_source_in_each_replica():
    pairs = pair(SOURCE, TARGET, 4, target_labeled=EXTRA, seed=0)
    plain, labels = pairs[0]
    assert plain["target_labeled"].shape == (4, 1)
    np.testing.assert_array_equal(labels[:4], plain["source"][:, 0] % 10 % 3)
    extra_rows = plain["target_labeled"][:, 0].astype(int) - 200
    np.testing.assert_array_equal(labels[4:], EXTRA[1][extra_rows])
    inputs, split = pairs.repeat(replicas=2)[0]
    keras.tree.map_structure(np.testing.assert_array_equal, inputs, plain)
    np.testing.assert_array_equal(split[:4], [*labels[:2], *labels[4:6]])
    np.testing.assert_array_equal(split[4:], [*labels[2:4], *labels[6:]])
    np.testing.assert_array_equal(pairs[0][1], labels)
    with pytest.raises(ValueError, match="multiple of 3, .*Received: batch_size=4"):
        pairs.check_devices(3)


@pytest.mark.parametrize(("sources", "balanced"), [(1, True), (2, False), (2, True)])
def test_sources_and_classes_are_drawn_in_equal_parts(sources, balanced):
    labels, domains = np.arange(100) % 5 % 2, np.repeat([0, 1], [80, 20])
    source = np.arange(100.0)[:, np.newaxis], labels
    options = {"source_domain": domains if sources > 1 else None, "balanced": balanced}
    drawn_rows = set()
    for inputs, batch_labels in itertools.islice(pair(source, TARGET, 8, **options).repeat(), 50):
        rows = inputs["source"][:, 0].astype(int)
        drawn_rows |= {*rows}
        np.testing.assert_array_equal(batch_labels, labels[rows])
        if sources > 1:
            np.testing.assert_array_equal(inputs["source_domain"], domains[rows])
            np.testing.assert_array_equal(np.bincount(domains[rows]), [4, 4])
        if balanced:
            np.testing.assert_array_equal(np.bincount(batch_labels), [4, 4])
    assert len(drawn_rows) > 90


# Batches that TensorFlow gathers equal the batches of pairs.
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype("float32")
Y = np.arange(20) % 3
ROWS = RNG.normal(size=(7, 3)).astype("float32")
NESTED = {"image": RNG.integers(0, 255, (20, 2, 2), dtype=np.uint8), "more": [X, X.astype("f8")]}
NESTED_ROWS = {"image": NESTED["image"][:9], "more": [X[:9], X[:9].astype("f8")]}
CASES = {
    "shuffled": ((X, Y), ROWS, {}),
    "in order": ((X, Y), ROWS, {"shuffle": False, "repeat": True}),
    "balanced": ((X, Y), ROWS, {"balanced": True}),
    "several sources": ((X, Y), ROWS, {"source_domain": np.arange(20) % 2}),
    "weights": ((X, Y, np.linspace(0, 1, 20)), ROWS, {}),
    "nested": ((NESTED, np.eye(3)[Y]), NESTED_ROWS, {}),
    "small numbers": ((X.astype("f2"), Y.astype("u2")), ROWS.astype("f2"), {}),
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
        keras.tree.map_structure(assert_same, batch, endless[step])
    assert pairs.start == 5


@pytest.mark.parametrize(
    ("source", "target", "options"),
    [
        ((LazyArray(X.shape, X.dtype, X.__getitem__), Y), ROWS, {}),
        ((X, Y), iter([ROWS]), {}),
        ((X, Y), ROWS, {"target_labeled": (X[:5], Y[:5])}),
        ((X, Y), ROWS, {"num_processes": 2}),
        ((X.astype(">f4"), Y), ROWS.astype(">f4"), {}),
    ],
)
def test_unsupported_pairs_have_no_dataset(source, target, options):
    assert as_tensorflow_dataset(pair(source, target, 4, seed=0, **options)) is None
