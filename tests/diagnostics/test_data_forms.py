"""Diagnostics take data as `fit` and `pair` do."""

import keras
import numpy as np
import pytest

from dann.adaptation import DANN
from dann.data import pair
from dann.diagnostics import Diagnostics, check, feature_distance
from dann.diagnostics.instruments.batch import as_batch

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
SOURCE, TARGET = (RNG.normal(size=(20, 3)).astype("float32") for _ in range(2))
LABELS = np.arange(20) % 2
BATCH = ({"source": SOURCE, "target": TARGET}, LABELS)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        rows = slice(10 * index, 10 * index + 10)
        return {"source": SOURCE[rows], "target": TARGET[rows]}, LABELS[rows]


def tf_data(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


FORMS = {
    "with_weights": lambda: (*BATCH, np.ones(20)),
    "rows": lambda: ({"source": SOURCE.tolist(), "target": TARGET.tolist()}, LABELS.tolist()),
    "tensors": lambda: ({"source": tf.constant(SOURCE), "target": tf.constant(TARGET)}, LABELS),
    "pairs": lambda: pair((SOURCE, LABELS), TARGET, 6, shuffle=False),
    "endless_pairs": lambda: pair((SOURCE, LABELS), TARGET, 6, shuffle=False, repeat=True),
    "pairs_of_datasets": lambda: pair(
        tf_data(SOURCE, LABELS).batch(4), tf_data(TARGET).batch(3), 5, shuffle=False
    ),
    "domains": lambda: {"source": (SOURCE, LABELS), "target": TARGET},
    "datasets": lambda: {
        "source": tf_data(SOURCE, LABELS).batch(6),
        "target": tf_data(TARGET, LABELS).batch(20),
    },
    "tf_data_of_pairs": lambda: tf.data.Dataset.from_tensor_slices(BATCH).batch(7),
    "pydataset_of_pairs": Batches,
    "generator_of_pairs": lambda: (Batches()[index] for index in range(2)),
    "function": lambda: lambda: (Batches()[index] for index in range(2)),
}


def model():
    backbone = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    model = DANN(backbone, num_classes=2)
    model.compile("sgd")
    return model


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_data_is_the_batch_that_it_holds(form):
    inputs, labels = as_batch(model(), FORMS[form]())
    np.testing.assert_array_equal(inputs["source"], SOURCE)
    np.testing.assert_array_equal(inputs["target"], TARGET)
    np.testing.assert_array_equal(labels, LABELS)


def test_diagnostics_one_by_one_together_and_as_callback_take_a_dataset():
    network, pairs = model(), FORMS["pairs_of_datasets"]()
    wanted = feature_distance(network, BATCH)
    assert feature_distance(network, pairs) == wanted
    found = check(network, pairs, mode="eager").measurements
    assert (
        found["reversal/state"]
        == check(network, BATCH, mode="eager").measurements["reversal/state"]
    )
    assert {name: found[name] for name in wanted} == wanted
    callback = Diagnostics(("distance",), FORMS["generator_of_pairs"]())
    network.fit(pairs, epochs=2, verbose=0, callbacks=[callback])
    now = feature_distance(network, BATCH)
    assert callback.latest == {f"diagnostics/{name}": value for name, value in now.items()}


def test_a_plain_model_takes_a_dataset_of_its_inputs():
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    for data in (tf_data(SOURCE).batch(7), tf_data(SOURCE, LABELS).batch(3), SOURCE.tolist()):
        np.testing.assert_array_equal(as_batch(network, data), SOURCE)
    assert as_batch(network, tf_data(SOURCE).batch(7).repeat()).shape == (256, 3)


def test_a_labelled_target_stays_behind_the_source_and_few_examples_are_enough():
    few = (TARGET[:2], LABELS[:2])
    inputs, labels = as_batch(model(), pair((SOURCE, LABELS), TARGET[:9], 5, target_labelled=few))
    assert [len(part) for part in inputs.values()] == [9, 9, 9]
    assert len(labels) == 18
    batches = [({"source": SOURCE, "target": TARGET, "target_labelled": few[0]}, [*LABELS, 7, 8])]
    inputs, labels = as_batch(model(), iter(batches * 2))
    np.testing.assert_array_equal(labels, [*LABELS, *LABELS, 7, 8, 7, 8])


def test_what_holds_one_domain_is_refused():
    for wrong, received in [
        ((SOURCE, LABELS), "a tuple of 2"),
        (SOURCE, "ndarray"),
        (tf_data(SOURCE, LABELS), "a dataset of tuple"),
        (iter(()), "an empty dataset"),
    ]:
        with pytest.raises(ValueError, match=f"needs both domains: .*Received: {received}"):
            check(model(), wrong)
