import keras
import numpy as np
import pytest
import tensorflow as tf

from dann.data import pair

SOURCE = np.arange(10.0)[:, np.newaxis], np.arange(10) % 3
TARGET = 100 + np.arange(4.0)[:, np.newaxis]


def as_datasets():
    return tf.data.Dataset.from_tensor_slices(SOURCE), tf.data.Dataset.from_tensor_slices(TARGET)


def numpy(pairs):
    return [tf.nest.map_structure(lambda part: part.numpy(), batch) for batch in pairs]


@pytest.mark.parametrize("domains", [(SOURCE, TARGET), as_datasets()], ids=["arrays", "tf.data"])
def test_an_epoch_is_one_pass_over_the_source_in_balanced_batches(domains):
    batches = numpy(pair(*domains, batch_size=3))
    assert len(batches) == 3  # the tenth example would make a partial batch
    sources = np.concatenate([inputs["source"] for inputs, _ in batches])
    assert len(np.unique(sources)) == 9
    for inputs, labels in batches:
        assert inputs["source"].shape == inputs["target"].shape == (3, 1)
        np.testing.assert_array_equal(labels, inputs["source"][:, 0] % 10 % 3)
        assert inputs["target"].min() >= 100


def test_a_smaller_target_is_recycled_evenly():
    batches = numpy(pair(SOURCE, TARGET, batch_size=4))
    targets = np.concatenate([inputs["target"] for inputs, _ in batches])[:, 0]
    np.testing.assert_array_equal(np.unique(targets, return_counts=True)[1], [2, 2, 2, 2])


def test_a_larger_target_goes_on_with_other_examples():
    target = np.arange(1000.0)[:, np.newaxis]
    pairs = pair(SOURCE, target, batch_size=5, seed=1)
    seen = [np.concatenate([i["target"] for i, _ in numpy(pairs)]) for _ in range(2)]
    assert len(np.intersect1d(*seen)) < 5


@pytest.mark.parametrize("target", [(TARGET, np.zeros(4)), as_datasets()[0]])
def test_target_labels_are_dropped_on_the_way_in(target):
    pairs = pair(SOURCE, target, batch_size=2)
    assert set(pairs.element_spec[0]) == {"source", "target"}
    assert pairs.element_spec[0]["target"].shape == (2, 1)
    assert not isinstance(pairs.element_spec[0]["target"], tuple)


def test_a_seed_sets_the_order_and_another_changes_it():
    orders = [
        np.concatenate([labels for _, labels in numpy(pair(*as_datasets(), 5, seed=seed))])
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_unshuffled_examples_keep_their_order():
    batches = numpy(pair(SOURCE, TARGET, 2, shuffle=False))
    np.testing.assert_array_equal(batches[1][0]["source"][:, 0], [2, 3])


def test_repeat_goes_on_without_end():
    pairs = pair(SOURCE, TARGET, batch_size=3, repeat=True)
    assert pairs.cardinality() == tf.data.INFINITE_CARDINALITY
    assert len(numpy(pairs.take(7))) == 7


def test_bytes_stay_bytes():
    images = np.zeros((4, 2, 2, 3), "uint8")
    assert pair((images, np.zeros(4, int)), images, 2).element_spec[0]["source"].dtype == tf.uint8


@pytest.mark.parametrize(
    ("source", "target", "arguments", "message"),
    [
        (SOURCE, TARGET[:0], {}, "The target holds no examples"),
        ((SOURCE[0][:0], SOURCE[1][:0]), TARGET, {}, "The source holds no examples"),
        (SOURCE, np.zeros((4, 2)), {}, r"one shape and type. Received: source \(1,\).*\(2,\)"),
        (SOURCE, TARGET.astype("float32"), {}, "source .* of float64, target .* of float32"),
        ((SOURCE[0], SOURCE[1][:3]), TARGET, {}, "Received: 10 inputs and 3 labels"),
        (SOURCE, {"a": TARGET}, {}, "The target must be given as arrays.*Received: dict"),
        (
            tf.data.Dataset.from_tensor_slices(({"a": SOURCE[0]}, SOURCE[1])),
            TARGET,
            {},
            "An input of the source must be one tensor. Received: {'a'",
        ),
        (SOURCE[0], TARGET, {}, r"must be `\(inputs, labels\)`.*Received: ndarray"),
        (as_datasets()[1], TARGET, {}, r"must give `\(input, label\)`. Received"),
        (SOURCE, TARGET, {"num_classes": 2}, r"below num_classes=2. Received: \[2\]"),
        ((SOURCE[0], -SOURCE[1]), TARGET, {"num_classes": 3}, r"Received: \[-2, -1\]"),
        ((SOURCE[0], SOURCE[0][:, 0]), TARGET, {"num_classes": 3}, "must be integers"),
        (SOURCE, TARGET, {"batch_size": 11}, "fill a batch of 11.*Received: 10 examples"),
        (SOURCE, TARGET, {"batch_size": 0}, "`batch_size` must be at least 1. Received: 0"),
    ],
)
def test_bad_input_is_refused(source, target, arguments, message):
    with pytest.raises(ValueError, match=message):
        pair(source, target, **{"batch_size": 2, **arguments})


def test_a_keras_model_trains_on_it():
    import dann

    model = dann.DANN(dann.networks.mlp_backbone((1,), hidden_units=(4,)), num_classes=3)
    model.compile(keras.optimizers.SGD(1e-3), metrics=["accuracy"])
    history = model.fit(pair(SOURCE, TARGET, batch_size=5), shuffle=False, epochs=2, verbose=0)
    assert len(history.history["domain/loss"]) == 2
    assert int(model.reversal.step) == 4
