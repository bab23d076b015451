import itertools

import keras
import numpy as np
import pytest

import dann
from dann.data import pair

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SOURCE = np.arange(10.0)[:, np.newaxis], np.arange(10) % 3
TARGET = 100 + np.arange(4.0)[:, np.newaxis]


def as_datasets():
    return tf.data.Dataset.from_tensor_slices(SOURCE), tf.data.Dataset.from_tensor_slices(TARGET)


@pytest.mark.parametrize("domains", [(SOURCE, TARGET), as_datasets()], ids=["arrays", "tf.data"])
def test_an_epoch_is_one_pass_over_the_source_in_balanced_batches(domains):
    batches = list(pair(*domains, batch_size=3))
    assert len(batches) == 3  # the tenth example would make a partial batch
    sources = np.concatenate([inputs["source"] for inputs, _ in batches])
    assert len(np.unique(sources)) == 9
    for inputs, labels in batches:
        assert inputs["source"].shape == inputs["target"].shape == (3, 1)
        np.testing.assert_array_equal(labels, inputs["source"][:, 0] % 10 % 3)
        assert inputs["target"].min() >= 100


def test_a_smaller_target_is_recycled_evenly():
    batches = list(pair(SOURCE, TARGET, batch_size=4))
    targets = np.concatenate([inputs["target"] for inputs, _ in batches])[:, 0]
    np.testing.assert_array_equal(np.unique(targets, return_counts=True)[1], [2, 2, 2, 2])


def test_a_larger_target_continues_with_other_examples():
    target = np.arange(1000.0)[:, np.newaxis]
    pairs = pair(SOURCE, target, batch_size=5, seed=1)
    seen = [np.concatenate([i["target"] for i, _ in list(pairs)]) for _ in range(2)]
    assert len(np.intersect1d(*seen)) < 5


@pytest.mark.parametrize("target", [(TARGET, np.zeros(4)), as_datasets()[0]])
def test_target_labels_are_dropped_on_the_way_in(target):
    inputs, labels = pair(SOURCE, target, batch_size=2)[0]
    assert set(inputs) == {"source", "target"}
    assert (inputs["target"].shape, labels.shape) == ((2, 1), (2,))


def test_a_seed_sets_the_order_and_another_changes_it():
    orders = [
        np.concatenate([labels for _, labels in list(pair(*as_datasets(), 5, seed=seed))])
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_unshuffled_examples_keep_their_order():
    batches = list(pair(SOURCE, TARGET, 2, shuffle=False))
    np.testing.assert_array_equal(batches[1][0]["source"][:, 0], [2, 3])


def test_repeat_never_ends():
    pairs = pair(SOURCE, TARGET, batch_size=3, repeat=True)
    assert pairs.num_batches is None
    with pytest.raises(TypeError, match="give `steps_per_epoch`"):
        len(pairs)
    assert len(list(itertools.islice(pairs, 7))) == 7


def test_bytes_stay_bytes():
    images = np.zeros((4, 2, 2, 3), "uint8")
    assert pair((images, np.zeros(4, int)), images, 2)[0][0]["source"].dtype == np.uint8


@pytest.mark.parametrize("of_datasets", [False, True])
@pytest.mark.parametrize("shape", [(10,), (10, 1)])
def test_continuous_labels_stay_as_they_are(of_datasets, shape):
    labels = (0.1 * SOURCE[0] - 0.25).astype("float32").reshape(shape)
    source = SOURCE[0], labels
    if of_datasets:
        source = tf.data.Dataset.from_tensor_slices(source)
    extra = 200 + np.arange(3.0)[:, np.newaxis], np.full((3, *shape[1:]), 0.75, "float32")
    for inputs, given in list(pair(source, TARGET, 4, target_labelled=extra)):
        assert given.dtype == np.float32
        assert given.shape == (8, *shape[1:])
        np.testing.assert_allclose(
            given[:4].ravel(), 0.1 * inputs["source"][:, 0] - 0.25, rtol=1e-5
        )
        np.testing.assert_array_equal(given[4:], np.full_like(given[4:], 0.75))


@pytest.mark.parametrize(
    ("source", "target", "arguments", "message"),
    [
        (SOURCE, TARGET[:0], {}, "The target holds no examples"),
        ((SOURCE[0][:0], SOURCE[1][:0]), TARGET, {}, "The source holds no examples"),
        (SOURCE, np.zeros((4, 2)), {}, r"one shape and type. Received: source \(1,\).*\(2,\)"),
        (SOURCE, TARGET.astype("float32"), {}, "source .* of float64, target .* of float32"),
        ((SOURCE[0], SOURCE[1][:3]), TARGET, {}, "Received: 10 inputs and 3 labels"),
        (SOURCE, {"a": TARGET}, {}, "one structure. Received: source .*target {'a': "),
        (SOURCE[0], TARGET, {}, r"must be `\(inputs, labels\)`.*Received: ndarray"),
        (as_datasets()[1], TARGET, {}, r"must give `\(input, label\)`.*Received"),
        (SOURCE, TARGET, {"num_classes": 2}, "below 2, .*Received: 2"),
        ((SOURCE[0], -SOURCE[1]), TARGET, {"num_classes": 3}, r"Received: -2, -1"),
        ((SOURCE[0], SOURCE[0][:, 0] / 2), TARGET, {"num_classes": 3}, "must be integers"),
        ((SOURCE[0], SOURCE[1] + 2.0), TARGET, {"num_classes": 3}, "below 3, .*Received: .*3"),
        ((SOURCE[0], np.eye(4)[SOURCE[1]] / 2), TARGET, {"num_classes": 3}, "must be integers"),
        (SOURCE, TARGET, {"batch_size": 11}, "fill a batch of 11.*Received: 10 examples"),
        (SOURCE, TARGET, {"batch_size": 0}, "at least 1. Received: batch_size=0"),
        (*as_datasets(), {"balanced": True}, "`balanced=True` and .* need the source as arrays"),
        *(
            (
                SOURCE,
                TARGET,
                {"source_domain": domains},
                "one integer for each .*Received: .*for 10",
            )
            for domains in (np.zeros(9, int), np.zeros(10), np.zeros((10, 1), int))
        ),
        *(
            (SOURCE, TARGET, {"target_labelled": labelled}, message)
            for labelled, message in (
                (TARGET, r"labelled target must be `\(inputs, labels\)`"),
                ((TARGET, np.zeros(3, int)), "labelled target .*4 inputs and 3 labels"),
                ((np.zeros((4, 2)), np.zeros(4, int)), r"labelled target \(2,\)"),
                ((TARGET[:0], np.zeros(0, int)), "labelled target holds no examples"),
                ((TARGET, np.full(4, 0.7)), "of the source's type. Received: float64 .*int64"),
                ((TARGET, np.zeros((4, 1), int)), r"labels of one .*Received: \(\) and \(1,\)"),
            )
        ),
        (
            (SOURCE[0], np.zeros((10, 3), int), np.ones(10)),
            TARGET,
            {"target_labelled": (TARGET, np.zeros((4, 3), int), np.ones((4, 3)))},
            r"weights of one example must have one shape .*Received: \(\) and \(3,\)",
        ),
    ],
)
def test_bad_input_is_refused(source, target, arguments, message):
    with pytest.raises(ValueError, match=message):
        pair(source, target, **{"batch_size": 2, **arguments})


@pytest.mark.parametrize("batch_size", [4.0, "4", True])
def test_a_batch_size_must_be_an_integer(batch_size):
    with pytest.raises(TypeError, match=f"an integer .*Received: batch_size={batch_size!r}"):
        pair(SOURCE, TARGET, batch_size)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_of_numbers_are_an_array(count):
    for inputs, _ in pair((SOURCE[0].tolist(), SOURCE[1].tolist()), TARGET[:count].tolist(), 2):
        assert inputs["target"].shape == inputs["source"].shape == (2, 1)
        assert np.isin(inputs["target"], TARGET[:count]).all()


@pytest.mark.parametrize("target", [tuple(TARGET), [TARGET], (TARGET, TARGET, TARGET)])
def test_a_target_of_other_structure_than_the_source_is_refused(target):
    kind, count = type(target).__name__, len(target)
    with pytest.raises(ValueError, match=rf"Received: a {kind} of {count}$"):
        pair(SOURCE, target, 2)


def of_unknown_size(examples, count):
    """The first examples, of which `tf.data` does not know how many there are."""
    dataset = tf.data.Dataset.from_tensor_slices(examples).take(count)
    return dataset.filter(lambda *example: True)


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"source": 0}, "The source holds no examples"),
        ({"source": 3}, "The source must fill a batch of 4; .*Received: 3 examples"),
        ({"target": 0}, "The target holds no examples"),
        ({"target_labelled": 0}, "The labelled target holds no examples"),
    ],
    ids=str,
)
def test_a_dataset_of_unknown_size_that_is_too_small_is_refused(counts, message, repeat):
    counts = {"source": 4, "target": 1, "target_labelled": 1, **counts}
    parts = {
        name: of_unknown_size(TARGET if name == "target" else SOURCE, count)
        for name, count in counts.items()
    }
    with pytest.raises(ValueError, match=message):
        pair(**parts, batch_size=4, repeat=repeat)


def test_endless_pairs_read_no_more_than_a_batch_of_a_dataset_of_unknown_size():
    reads = []

    def examples():
        for value in range(120):
            reads.append(value)
            yield np.array([value], "float64"), value % 3

    signature = tf.TensorSpec((1,), tf.float64), tf.TensorSpec((), tf.int64)
    source = tf.data.Dataset.from_generator(examples, output_signature=signature)
    target = of_unknown_size(TARGET, 1)
    endless = pair(source, target, 3, shuffle=False, repeat=True)
    assert reads[-1] < 50  # TensorFlow reads some ahead
    batches = list(pair(source, target, 3, shuffle=False))
    np.testing.assert_array_equal(endless[0][0]["source"], batches[0][0]["source"])
    np.testing.assert_array_equal(batches[0][0]["source"][:, 0], [0, 1, 2])
    np.testing.assert_array_equal(batches[2][1], [0, 1, 2])
    assert len(batches) == 40


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_batches_of_a_dataset_are_rebatched(drop_remainder):
    source, target = as_datasets()
    of_batches = [one.batch(4, drop_remainder=drop_remainder) for one in (source, target)]
    found = list(pair(*of_batches, 3))
    assert len(found) == (8 if drop_remainder else 10) // 3
    expected = list(pair(*as_datasets(), 3, shuffle=False))
    for (inputs, labels), (singly, their_labels) in zip(found, expected, strict=False):
        np.testing.assert_array_equal(inputs["source"], singly["source"])
        np.testing.assert_array_equal(inputs["target"], singly["target"])
        np.testing.assert_array_equal(labels, their_labels)


def test_images_whose_height_is_not_known_are_no_batches():
    """As `tf.io.decode_jpeg` gives them."""
    source, target = as_datasets()
    signature = tf.TensorSpec((None,), tf.float64)

    def unshaped(inputs):
        return tf.ensure_shape(tf.py_function(lambda x: x, [inputs], tf.float64), signature.shape)

    pairs = pair(source.map(lambda x, y: (unshaped(x), y)), target.map(unshaped), 2)
    assert next(iter(pairs))[0]["source"].shape == (2, 1)


def test_a_keras_model_trains_on_it():
    import dann

    model = dann.DANN(dann.networks.mlp_backbone((1,), hidden_units=(4,)), num_classes=3)
    model.compile(keras.optimizers.SGD(1e-3), metrics=["accuracy"])
    history = model.fit(pair(SOURCE, TARGET, batch_size=5), shuffle=False, epochs=2, verbose=0)
    assert len(history.history["domain/loss"]) == 2
    assert int(model.reversal.step) == 4


class Squares:
    """An array that is computed where it is read."""

    shape, dtype = (10, 1), np.dtype("float64")

    def __init__(self):
        self.reads = []

    def __len__(self):
        return 10

    def __getitem__(self, chosen):
        self.reads.append(np.array(chosen))
        return (np.asarray(chosen) ** 2.0)[:, np.newaxis]


def _small_model():
    model = dann.DANN(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    model.compile("sgd")
    return model


@pytest.mark.tensorflow
@pytest.mark.parametrize("of_a_dataset", [False, True])
def test_endless_pairs_are_not_fitted_for_ever(of_a_dataset):
    source = np.ones((8, 2), "float32"), np.arange(8) % 2
    pairs = pair(source, source[0], 4, repeat=True)
    if of_a_dataset:
        pairs = pair(tf.data.Dataset.from_tensor_slices(source).repeat(), source[0], 4)
    with pytest.raises(ValueError, match="`steps_per_epoch=...`.*Received: steps_per_epoch=None"):
        _small_model().fit(pairs, verbose=0)
    with pytest.raises(ValueError, match="Received: steps=None"):
        _small_model().evaluate(pairs, verbose=0)
    with pytest.raises(ValueError, match="`validation_steps=...`"):
        _small_model().fit(pairs, steps_per_epoch=1, validation_data=pairs, verbose=0)
    history = _small_model().fit(pairs, steps_per_epoch=3, verbose=0)
    assert len(history.history["loss"]) == 1


@pytest.mark.tensorflow
def test_a_dataset_of_pairs_is_fitted_without_a_warning():
    """Keras would warn that it does not shuffle it; warnings are errors here."""
    inputs = {"source": np.ones((8, 2), "float32"), "target": np.zeros((8, 2), "float32")}
    dataset = tf.data.Dataset.from_tensor_slices((inputs, np.arange(8) % 2)).batch(4)
    history = _small_model().fit(dataset, verbose=0)
    assert len(history.history["loss"]) == 1


@pytest.mark.tensorflow
def test_batches_of_a_users_own_dataset_are_shuffled_as_keras_does():
    class Batches(keras.utils.PyDataset):
        asked = []

        def __len__(self):
            return 12

        def __getitem__(self, index):
            self.asked.append(index)
            ones = np.ones((2, 2), "float32")
            return {"source": ones, "target": ones}, np.array([0, 1])

    batches = Batches()
    _small_model().fit(batches, verbose=0)
    last = batches.asked[-12:]
    assert sorted(last) == list(range(12))
    assert last != list(range(12))


@pytest.mark.tensorflow
def test_pairs_cannot_be_split_for_validation():
    model = _small_model()
    pairs = pair((np.ones((8, 2)), np.arange(8) % 2), np.ones((8, 2)), 4)
    with pytest.raises(ValueError, match=r"`validation_data=\(inputs, labels\)`.*split=0.2"):
        model.fit(pairs, validation_split=0.2, verbose=0)


def test_of_an_array_like_only_the_batches_are_read():
    squares = Squares()
    batches = list(pair((squares, np.arange(10)), TARGET, batch_size=3, seed=0))
    for inputs, labels in batches:
        np.testing.assert_array_equal(inputs["source"][:, 0], labels**2)
    assert max(map(len, squares.reads)) == 3


def test_a_memory_map_gives_the_batches_of_its_array(tmp_path):
    np.save(tmp_path / "x.npy", SOURCE[0])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = list(pair((mapped, SOURCE[1]), TARGET, 5, seed=1))
    tf.nest.map_structure(
        np.testing.assert_array_equal, found, list(pair(SOURCE, TARGET, 5, seed=1))
    )


def test_balanced_batches_draw_classes_in_equal_parts_and_all_their_examples():
    labels = np.repeat([0, 1, 2], [80, 16, 4])
    source = np.arange(100.0)[:, np.newaxis], labels
    pairs = pair(source, TARGET, batch_size=6, balanced=True, seed=0)
    assert len(list(pairs)) == 100 // 6
    drawn = []
    for inputs, batch_labels in itertools.islice(
        pair(source, TARGET, 6, balanced=True, repeat=True), 50
    ):
        np.testing.assert_array_equal(np.bincount(batch_labels), [2, 2, 2])
        np.testing.assert_array_equal(labels[inputs["source"][:, 0].astype(int)], batch_labels)
        drawn.append(inputs["source"][:, 0])
    assert len(np.unique(np.concatenate(drawn))) > 60


def test_a_labelled_target_follows_the_source():
    extra = 200 + np.arange(3.0)[:, np.newaxis], np.array([2, 0, 1])
    for inputs, labels in list(pair(SOURCE, TARGET, 4, target_labelled=extra)):
        assert inputs["target_labelled"].shape == (4, 1)
        np.testing.assert_array_equal(labels[:4], inputs["source"][:, 0] % 10 % 3)
        chosen = inputs["target_labelled"][:, 0].astype(int) - 200
        np.testing.assert_array_equal(labels[4:], extra[1][chosen])


def test_labels_follow_the_examples_of_each_replica():
    extra = 200 + np.arange(4.0)[:, np.newaxis], np.array([2, 0, 1, 1])
    pairs = pair(SOURCE, TARGET, 4, target_labelled=extra, seed=0)
    plain, labels = pairs[0]
    with pairs.split_over(2, replicas=2):
        inputs, split = pairs[0]
    for name, part in inputs.items():
        np.testing.assert_array_equal(part, plain[name])
    np.testing.assert_array_equal(split[:4], [*labels[:2], *labels[4:6]])
    np.testing.assert_array_equal(split[4:], [*labels[2:4], *labels[6:]])
    np.testing.assert_array_equal(pairs[0][1], labels)


def test_a_batch_that_devices_cannot_share_evenly_is_refused():
    pairs = pair(SOURCE, TARGET, 4)
    with pytest.raises(ValueError, match="multiple of 3. Received: batch_size=4"):
        pairs.check_devices(3)
    with pytest.raises(ValueError, match="multiple of 3"), pairs.split_over(3):
        pass


DOMAINS = np.repeat([0, 1], [80, 20])


@pytest.mark.parametrize("balanced", [False, True])
def test_several_sources_are_drawn_in_equal_parts_with_their_numbers(balanced):
    labels = np.arange(100) % 5 % 2
    source = np.arange(100.0)[:, np.newaxis], labels
    pairs = pair(source, TARGET, 8, source_domain=DOMAINS, balanced=balanced, repeat=True, seed=0)
    for inputs, batch_labels in itertools.islice(pairs, 30):
        rows = inputs["source"][:, 0].astype(int)
        np.testing.assert_array_equal(inputs["source_domain"], DOMAINS[rows])
        np.testing.assert_array_equal(batch_labels, labels[rows])
        np.testing.assert_array_equal(np.bincount(inputs["source_domain"]), [4, 4])
        if balanced:
            np.testing.assert_array_equal(np.bincount(batch_labels), [4, 4])


def test_frames_whose_columns_are_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas")
    source = pandas.DataFrame({"age": [1.0, 2.0], "height": [3.0, 4.0]})
    target, labels = source[["height", "age"]], [0, 1]
    message = r"`frame\[list\(source.columns\)\]`.*'age' of the source, 'height' of the {}"
    for given in (target, (target, labels)):
        with pytest.raises(ValueError, match=message.format("target")):
            pair((source, labels), given, 2)
    with pytest.raises(ValueError, match=message.format("labelled target")):
        pair((source, labels), source, 2, target_labelled=(target, labels))
    pair((source, labels), target[list(source.columns)], 2)


def test_labels_of_datasets_that_cannot_follow_each_other_are_told():
    examples = [(row, int(label)) for row, label in zip(SOURCE[0], SOURCE[1], strict=True)]
    labelled = (TARGET, np.zeros((len(TARGET), 1), int))
    pairs = pair(lambda: iter(examples), TARGET, 2, target_labelled=labelled, batched=False)
    with pytest.raises(ValueError, match=r"labels of one example .*Received: \(\) and \(1,\)"):
        next(iter(pairs))


def test_backups_of_keras_which_repeat_batches_are_told(tmp_path):
    model = dann.SourceOnly(dann.networks.mlp_backbone((1,), hidden_units=(2,)), num_classes=3)
    model.compile("sgd")
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.warns(UserWarning, match=r"not with its batches; `dann.training.fit` does both"):
        model.fit(pair(SOURCE, TARGET, 2), callbacks=[backup], verbose=0)
