import itertools
import json

import keras
import numpy as np
import pandas
import pytest

import dann
from dann.data import pair

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SOURCE = np.arange(10.0)[:, np.newaxis], np.arange(10) % 3
TARGET = 100 + np.arange(4.0)[:, np.newaxis]


def as_datasets(size=3):
    return [tf.data.Dataset.from_tensor_slices(one).batch(size) for one in (SOURCE, TARGET)]


def test_an_epoch_is_one_pass_over_the_source_in_balanced_batches():
    batches = list(pair(SOURCE, TARGET, batch_size=3))
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


@pytest.mark.parametrize("target", [(TARGET, np.zeros(4)), (TARGET, None), as_datasets()[0]])
def test_target_labels_are_dropped_on_the_way_in(target):
    inputs, labels = pair(SOURCE, target, batch_size=2)[0]
    assert set(inputs) == {"source", "target"}
    assert (inputs["target"].shape, labels.shape) == ((2, 1), (2,))


def test_a_seed_sets_the_order_and_another_changes_it():
    orders = [
        np.concatenate([labels for _, labels in pair(SOURCE, TARGET, 5, seed=seed)])
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
        source = tf.data.Dataset.from_tensor_slices(source).batch(4)
    extra = 200 + np.arange(3.0)[:, np.newaxis], np.full((3, *shape[1:]), 0.75, "float32")
    for inputs, given in list(pair(source, TARGET, 4, target_labelled=extra)):
        assert given.dtype == np.float32
        assert given.shape == (8, *shape[1:])
        np.testing.assert_allclose(
            given[:4].ravel(), 0.1 * inputs["source"][:, 0] - 0.25, rtol=1e-5
        )
        np.testing.assert_array_equal(given[4:], np.full_like(given[4:], 0.75))


def odd(value):
    return np.where(SOURCE[0] == 3, value, SOURCE[0])


REFUSED = {
    "an empty target": (SOURCE, TARGET[:0], {}),
    "an empty source": ((SOURCE[0][:0], SOURCE[1][:0]), TARGET, {}),
    "another shape": (SOURCE, np.zeros((4, 2)), {}),
    "another type": (SOURCE, TARGET.astype("float32"), {}),
    "too few labels": ((SOURCE[0], SOURCE[1][:3]), TARGET, {}),
    "another structure": (SOURCE, {"a": TARGET}, {}),
    "no labels": (SOURCE[0], TARGET, {}),
    "inputs, labels, target": (SOURCE[0], SOURCE[1], {"batch_size": TARGET}),
    "a dataset without labels": (as_datasets()[1], TARGET, {}),
    "a dataset of dicts": ([{"image": SOURCE[0], "label": SOURCE[1]}].__iter__(), TARGET, {}),
    "single examples": (zip(*SOURCE, strict=True), TARGET, {}),
    "single targets": (SOURCE, iter(TARGET), {}),
    "an empty dataset": (iter([]), TARGET, {}),
    "an empty dataset as target": (SOURCE, iter([]), {}),
    "batches of several lengths": (iter([(SOURCE[0], SOURCE[1][:3])]), TARGET, {}),
    "a text": ("photos/", TARGET, {}),
    "four parts": ((*SOURCE, SOURCE[1], SOURCE[1]), TARGET, {}),
    "a function": (lambda: zip(*SOURCE, strict=True), TARGET, {}),
    "rows of several lengths": (([[1.0], [2.0, 3.0]], [0, 1]), TARGET, {}),
    "a list of rows": (([np.ones(3), np.ones(3)], [0, 1]), TARGET, {}),
    "several lengths": (({"a": SOURCE[0], "b": SOURCE[0][:3]}, SOURCE[1]), TARGET, {}),
    "NaN": ((odd(np.nan), SOURCE[1]), TARGET, {}),
    "infinity": ((odd(-np.inf), SOURCE[1]), TARGET, {}),
    "None": ((odd(None).tolist(), SOURCE[1]), TARGET, {}),
    "a masked value": ((np.ma.masked_equal(SOURCE[0], 3), SOURCE[1]), TARGET, {}),
    "NaN in a frame": ((pandas.DataFrame(odd(np.nan)), SOURCE[1]), TARGET, {}),
    "texts in a frame": ((pandas.DataFrame(odd("x")), SOURCE[1]), TARGET, {}),
    "NaN in the target": (SOURCE, odd(np.nan), {}),
    "NaN in labels": ((SOURCE[0], odd(np.nan)[:, 0]), TARGET, {}),
    "NaN in weights": ((*SOURCE, odd(np.nan)[:, 0]), TARGET, {}),
    "negative weights": ((*SOURCE, odd(-1)[:, 0]), TARGET, {}),
    "weights of another shape": ((*SOURCE, SOURCE[0]), TARGET, {}),
    "a large batch": (SOURCE, TARGET, {"batch_size": 11}),
    "no batch": (SOURCE, TARGET, {"batch_size": 0}),
    "half a batch": (SOURCE, TARGET, {"batch_size": 4.5}),
    "balanced datasets": (*as_datasets(), {"balanced": True}),
    "a shared dataset": (*as_datasets(), {"num_processes": 2}),
    "too few domains": (SOURCE, TARGET, {"source_domain": np.zeros(9, int)}),
    "domains that are no integers": (SOURCE, TARGET, {"source_domain": np.zeros(10)}),
    "a column of domains": (SOURCE, TARGET, {"source_domain": np.zeros((10, 1), int)}),
    "an unlabelled extra": (SOURCE, TARGET, {"target_labelled": TARGET}),
    "few labels of it": (SOURCE, TARGET, {"target_labelled": (TARGET, np.zeros(3, int))}),
    "its shape": (SOURCE, TARGET, {"target_labelled": (np.zeros((4, 2)), np.zeros(4, int))}),
    "none of it": (SOURCE, TARGET, {"target_labelled": (TARGET[:0], np.zeros(0, int))}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case):
    source, target, arguments = REFUSED[case]
    with pytest.raises((ValueError, TypeError)):
        pair(source, target, **{"batch_size": 2, **arguments})


@pytest.mark.parametrize(
    "labelled", [np.full(4, 0.7), np.zeros((4, 1), int)], ids=["another type", "another shape"]
)
def test_labels_that_cannot_follow_the_sources_are_refused(labelled):
    with pytest.raises((ValueError, TypeError)):
        pair(SOURCE, TARGET, 2, target_labelled=(TARGET, labelled))[0]


def test_nan_in_an_array_like_is_refused_where_it_is_read():
    class Computed(Squares):
        def __getitem__(self, chosen):
            return np.where(np.asarray(chosen) == 3, np.nan, 1.0)[:, np.newaxis]

    pairs = pair((Computed(), np.arange(10)), TARGET, 10)
    with pytest.raises(ValueError, match="source must hold finite numbers.*1 of 10"):
        pairs[0]


def test_frames_whose_columns_do_not_line_up_are_refused():
    source = pandas.DataFrame({"age": [1.0, 2.0], "height": [3.0, 4.0]})
    labels = pandas.Series([0, 1], index=[5, 6])
    inputs, found = pair((source, labels), (source, labels), 2, shuffle=False)[0]
    np.testing.assert_array_equal(inputs["target"], source)
    np.testing.assert_array_equal(found, labels)
    for other in (source[["height", "age"]], source.rename(columns={"age": "weight"})):
        for target in (other, (other, labels)):
            with pytest.raises(ValueError, match="columns"):
                pair((source, labels), target, 2)
        with pytest.raises(ValueError, match="columns"):
            pair((source, labels), source, 2, target_labelled=(other, labels))
        with pytest.raises(ValueError, match="columns"):
            pair(({"a": source}, labels), {"a": other}, 2)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_of_numbers_are_an_array(count):
    for inputs, _ in pair((SOURCE[0].tolist(), SOURCE[1].tolist()), TARGET[:count].tolist(), 2):
        assert inputs["target"].shape == inputs["source"].shape == (2, 1)
        assert np.isin(inputs["target"], TARGET[:count]).all()


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
        pairs = pair(tf.data.Dataset.from_tensor_slices(source).batch(3).repeat(), source[0], 4)
    with pytest.raises(ValueError, match="number of steps"):
        _small_model().fit(pairs, verbose=0)
    with pytest.raises(ValueError, match="number of steps"):
        _small_model().evaluate(pairs, verbose=0)
    with pytest.raises(ValueError, match="number of steps"):
        _small_model().fit(pairs, steps_per_epoch=1, validation_data=pairs, verbose=0)
    history = _small_model().fit(pairs, steps_per_epoch=3, verbose=0)
    assert len(history.history["loss"]) == 1


def test_the_identity_tells_other_settings_and_other_examples():
    def identity(source=SOURCE, target=TARGET, size=4, **arguments):
        return pair(source, target, size, **{"seed": 0, **arguments}).identity

    others = [
        identity((SOURCE[0] + 1, SOURCE[1])),
        identity((SOURCE[0], SOURCE[1][::-1])),
        identity(target=TARGET[:3]),
        identity(size=5),
        identity(seed=1),
        identity(shuffle=False),
        identity(balanced=True),
    ]
    assert identity() == identity() == json.loads(json.dumps(identity()))
    assert all(other != identity() for other in others)


def test_the_first_examples_are_taken_without_moving_on():
    for domains in ((SOURCE, TARGET), as_datasets()):
        pairs = pair(*domains, 2, shuffle=False)
        pairs[0], pairs[1]
        inputs, labels = pairs.take(3)
        np.testing.assert_array_equal(inputs["source"], SOURCE[0][:3])
        np.testing.assert_array_equal(inputs["target"], TARGET[:3])
        np.testing.assert_array_equal(labels, SOURCE[1][:3])
        assert len(pairs.take(100)[1]) in (4, 6)  # the target, or about that
        np.testing.assert_array_equal(pairs[2][0]["source"], SOURCE[0][4:6])


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
