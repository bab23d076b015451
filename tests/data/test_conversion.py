import numpy as np
import pytest
from scipy import sparse

from dann.data import pair
from dann.data.conversion import as_array
from dann.data.lazy_arrays import DenseRows

VALUES = np.arange(24, dtype="float32").reshape(6, 4) * (np.arange(24).reshape(6, 4) % 3 == 0)
LABELS = np.arange(6) % 2


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.lil_matrix])
@pytest.mark.parametrize("chosen", [1, -1, slice(1, 5), np.array([5, 0, 3, 0]), np.array([], int)])
def test_rows_of_a_sparse_matrix_are_those_of_the_array(kind, chosen):
    rows = as_array(kind(VALUES), "source")
    assert isinstance(rows, DenseRows)
    assert (rows.shape, rows.dtype, len(rows)) == (VALUES.shape, VALUES.dtype, 6)
    found = rows[chosen]
    np.testing.assert_array_equal(found, VALUES[chosen])
    assert type(found) is np.ndarray
    assert found.dtype == np.float32


def test_pairs_of_sparse_matrices_are_those_of_arrays():
    dense = pair((VALUES, LABELS), VALUES[:5], 2, seed=3)
    found = pair((sparse.csr_matrix(VALUES), LABELS), sparse.csc_matrix(VALUES[:5]), 2, seed=3)
    for (inputs, labels), (others, its) in zip(dense, found, strict=True):
        np.testing.assert_array_equal(inputs["source"], others["source"])
        np.testing.assert_array_equal(inputs["target"], others["target"])
        np.testing.assert_array_equal(labels, its)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.dok_array])
def test_sparse_batches_of_a_dataset_are_those_of_arrays(kind):
    def batches():
        for first in (0, 4):
            yield kind(VALUES[first : first + 4]), LABELS[first : first + 4]

    dense = pair((VALUES, LABELS), VALUES, 2, shuffle=False)
    found = pair(batches, kind(VALUES), 2, shuffle=False)
    for (inputs, labels), (others, its) in zip(dense, found, strict=True):
        np.testing.assert_array_equal(inputs["source"], others["source"])
        np.testing.assert_array_equal(inputs["target"], others["target"])
        np.testing.assert_array_equal(labels, its)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_of_torch_of_every_kind_are_arrays():
    torch = pytest.importorskip("torch")
    given = torch.tensor(VALUES)
    half = given.bfloat16()
    for tensor in (given.requires_grad_(), half, given.detach().to_sparse()):
        np.testing.assert_array_equal(as_array(tensor, "source"), VALUES)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(ValueError, match="pad_sequences.* a nested tensor of rows of several"):
        as_array(nested, "source")


@pytest.mark.tensorflow
def test_a_ragged_tensor_is_refused_with_what_pads_it():
    tf = pytest.importorskip("tensorflow")
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]] * 3)
    told = r"`tensor.to_tensor\(\)`.* Received: a RaggedTensor of rows of several lengths"
    with pytest.raises(ValueError, match=f"The source must be given as arrays.*{told}"):
        pair((ragged, LABELS), ragged, 2)
    dataset = tf.data.Dataset.from_tensor_slices((ragged, LABELS))
    with pytest.raises(ValueError, match="The source must be .* of rows of several lengths"):
        pair(dataset.batch(2), ragged, 2)
    rows = dataset.map(lambda inputs, labels: inputs)
    with pytest.raises(ValueError, match="The (source|target) must .* of rows of several lengths"):
        list(pair(dataset, rows, 2, seed=0))


def test_items_of_several_lengths_are_refused():
    items = [(np.ones(2), 0), (np.ones(3), 1)] * 2

    class Items:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return items[index]

    with pytest.raises(ValueError, match="The source .* a dataset of rows of several lengths"):
        pair(Items(), np.ones((4, 2)), 2, shuffle=False)[0]


@pytest.mark.parametrize(
    "numbers", [[1, 0, 2], [True, False, True], [0.5, 1, 2], [np.True_, np.False_, np.True_]]
)
def test_numbers_that_are_python_objects_get_a_type(numbers):
    found = as_array(np.array(numbers, dtype=object), "source's labels")
    assert found.dtype == np.asarray(numbers).dtype
    np.testing.assert_array_equal(found, numbers)


def test_rows_that_are_python_objects_are_stacked():
    rows = np.empty(6, dtype=object)
    rows[:] = list(VALUES)
    np.testing.assert_array_equal(as_array(rows, "source"), VALUES)
    rows[2] = rows[2][:1]
    with pytest.raises(ValueError, match="a ndarray of rows of several lengths"):
        as_array(rows, "source")


def test_sparse_one_hot_labels_are_labels():
    one_hot = np.eye(2)[LABELS]
    sparse_labels = sparse.csr_matrix(one_hot)
    found = pair((VALUES, sparse_labels), VALUES, 2, seed=0)
    wanted = pair((VALUES, one_hot), VALUES, 2, seed=0)
    for (_, labels), (_, its) in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(labels, its)
    with pytest.raises(ValueError, match="needs one label for each example; use `np.argmax"):
        pair((VALUES, sparse_labels), VALUES, 2, balanced=True)


def test_objects_of_several_kinds_stay_as_they_are():
    for kept in (np.array([1, "two"], object), np.zeros((0, 3), "O")):
        assert as_array(kept, "source") is kept


def test_missing_values_of_an_array_of_objects_are_refused():
    with pytest.raises(ValueError, match="source must hold numbers or texts, .*Received: None"):
        pair((np.array([[1.0, None]] * 6, object), LABELS), VALUES[:, :2], 2)


def test_a_list_of_rows_is_told_how_to_become_an_array():
    with pytest.raises(ValueError, match=r"numpy.asarray\(rows\)` makes one.*4 inputs and 6 lab"):
        pair((list(VALUES), LABELS), VALUES, 2)


@pytest.mark.parametrize("part", ["inputs", "labels", "target"])
def test_masked_values_are_refused(part):
    masked = {"inputs": VALUES, "labels": LABELS, "target": VALUES}
    masked[part] = np.ma.masked_array(masked[part], mask=masked[part] == 0)
    with pytest.raises(ValueError, match=r"none of them missing; `.filled\(value\)`.* a masked"):
        pair((masked["inputs"], masked["labels"]), masked["target"], 2)
    whole = np.ma.masked_array(VALUES, mask=False)
    assert len(pair((whole, LABELS), VALUES, 2)) == 3
