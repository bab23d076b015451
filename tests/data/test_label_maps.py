"""Label maps, their weights, and strings, on the way into batches."""

import keras
import numpy as np
import pytest

from dann.data import pair

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(6, 4, 4, 1)).astype("float32")
MAPS = RNG.integers(0, 3, (6, 4, 4))
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


def tf_data(batch_size=None, drop_remainder=True):
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, MAPS))
    return dataset.batch(batch_size, drop_remainder=drop_remainder) if batch_size else dataset


def generated(batch_size=None):
    def examples():
        count = 6 // (batch_size or 1)
        for i in range(count):
            chosen = slice(i * batch_size, (i + 1) * batch_size) if batch_size else i
            yield IMAGES[chosen], MAPS[chosen]

    return examples


@pytest.mark.parametrize("make", [tf_data, generated])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_dataset_of_label_maps_must_say_whether_it_gives_batches(make, batch_size):
    with pytest.raises(
        ValueError, match=r"`pair\(..., batched=False\)` or `batched=True`.*4, 4, 1"
    ):
        pair(make(batch_size), IMAGES, 6)
    pairs = pair(
        make(batch_size), make(batch_size), 6, shuffle=False, batched=batch_size is not None
    )
    inputs, labels = pairs[0]
    for part in inputs.values():
        np.testing.assert_array_equal(part, IMAGES)
    np.testing.assert_array_equal(labels, MAPS)


def test_open_axes_say_that_they_are_batches():
    inputs, labels = pair(tf_data(4, drop_remainder=False), IMAGES, 6, shuffle=False)[0]
    np.testing.assert_array_equal(inputs["source"], IMAGES)
    np.testing.assert_array_equal(labels, MAPS)


def test_batches_of_images_with_one_label_each_need_not_be_told():
    def batches():
        yield IMAGES, MAPS[:, 0, 0]

    assert pair(batches, IMAGES, 6)[0][1].shape == (6,)


@pytest.mark.parametrize("shape", [(6,), (6, 4, 4)])
def test_weights_are_those_of_examples_or_of_labels(shape):
    weights = RNG.uniform(size=shape)
    pairs = pair((IMAGES, MAPS, weights), IMAGES, 6, shuffle=False, target_labelled=(IMAGES, MAPS))
    _, labels, found = pairs[0]
    assert labels.shape == (12, 4, 4)
    np.testing.assert_allclose(found[:6], weights, rtol=1e-6)
    np.testing.assert_array_equal(found[6:], np.ones(shape))


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"one for each label of a map.*\(6, 4\)"):
        pair((IMAGES, MAPS, np.ones((6, 4))), IMAGES, 6)


@pytest.mark.skipif(not ON_TENSORFLOW, reason="only TensorFlow has tensors of strings")
def test_strings_are_inputs_of_any_length():
    texts, longer = np.array(["a b", "c"]), np.array(["a longer text", "b", "c"])
    inputs, _ = pair((texts, np.array([0, 1])), longer, 2, shuffle=False)[0]
    assert [text.decode() for text in inputs["source"].numpy()] == ["a b", "c"]
    assert [text.decode() for text in inputs["target"].numpy()] == ["a longer text", "b"]
