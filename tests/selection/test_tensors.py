"""Scores of tensors, frames and datasets are those of the arrays that they hold."""

import keras
import numpy as np
import pytest
from support.array_batches import ArrayBatches
from support.checkpoints import SOURCE, TARGET, checkpoint

from dann.selection import SCORES, SelectionScores, compute_scores

# Each imports its library where it is there, whatever Keras computes with.
MAKERS = {
    "tensorflow": lambda values: pytest.importorskip("tensorflow").constant(values),
    "jax": lambda values: pytest.importorskip("jax.numpy").asarray(values),
    "keras": keras.ops.convert_to_tensor,
}


@pytest.mark.parametrize("library", MAKERS)
def test_scores_of_tensors_equal_those_of_arrays(library):
    of_tensors = MAKERS[library]
    source, target = tuple(of_tensors(part) for part in SOURCE), of_tensors(TARGET)
    wanted = compute_scores(checkpoint(20), source=SOURCE, target=TARGET)
    for batch_size in (10, 256):
        found = compute_scores(checkpoint(20), source=source, target=target, batch_size=batch_size)
        assert list(found) == list(SCORES)
        assert found == pytest.approx(wanted, rel=1e-5)


def test_the_model_runs_once_on_a_tensor_for_several_scores():
    seen = []

    class Counted(keras.layers.Layer):
        def call(self, inputs):
            seen.append(inputs.shape[0])
            return inputs

    entry = keras.Input((3,))
    model = keras.Model(entry, Counted()(entry))
    seen.clear()
    target = keras.ops.convert_to_tensor(np.eye(7, 3))
    compute_scores(model, source=None, target=target, scores=["entropy", "snd", "bnm"])
    assert seen == [7]


def tf_data(*arrays):
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


def torch_dataset(*arrays):
    data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")
    return data.TensorDataset(*map(torch.from_numpy, arrays))


def torch_loader(*arrays):
    return pytest.importorskip("torch.utils.data").DataLoader(torch_dataset(*arrays), 7)


def frame(inputs, *labels):
    pandas = pytest.importorskip("pandas")
    made = pandas.DataFrame(inputs)
    return (made, pandas.Series(labels[0])) if labels else made


DATASETS = {
    "rows": lambda *arrays: tuple(a.tolist() for a in arrays) if arrays[1:] else arrays[0].tolist(),
    "frame": frame,
    "tf_data": tf_data,
    "tf_data_in_batches": lambda *arrays: tf_data(*arrays).batch(7),
    "pydataset": ArrayBatches,
    "torch_dataset": torch_dataset,
    "torch_loader": torch_loader,
    "generator": lambda *arrays: zip(*arrays, strict=True) if arrays[1:] else iter(arrays[0]),
    "function": lambda *arrays: lambda: iter(ArrayBatches(*arrays)),
}


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("labelled", [False, True])
def test_scores_of_a_dataset_equal_those_of_its_arrays(kind, labelled):
    wanted = compute_scores(checkpoint(20), source=SOURCE, target=TARGET)
    if labelled and kind in ("rows", "frame"):
        pytest.skip("a tuple is refused: a score sees no labels of the target")
    arrays = (TARGET, np.zeros(len(TARGET), int)) if labelled else (TARGET,)
    found = compute_scores(
        checkpoint(20), source=DATASETS[kind](*SOURCE), target=DATASETS[kind](*arrays)
    )
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("kind", ["tf_data_in_batches", "torch_loader", "pydataset"])
def test_one_score_and_the_callback_take_a_dataset(kind):
    target = DATASETS[kind](TARGET)
    assert SCORES["snd"](checkpoint(20), target=target) == SCORES["snd"](
        checkpoint(20), target=TARGET
    )
    model = checkpoint(20)
    model.compile("sgd")
    scores = [SelectionScores(("dev", "snd"), DATASETS[kind](*SOURCE), target)]
    pair = {"source": SOURCE[0], "target": TARGET}
    logs = model.fit(pair, SOURCE[1], epochs=2, verbose=0, callbacks=scores).history
    wanted = compute_scores(model, source=SOURCE, target=TARGET, scores=["dev", "snd"])
    assert {name: logs[f"selection/{name}"][-1] for name in wanted} == pytest.approx(wanted)


def test_images_in_batches_without_labels_are_told_from_single_images():
    images = np.random.default_rng(0).normal(size=(9, 4, 4, 2)).astype("float32")
    model = keras.Sequential([keras.Input((4, 4, 2)), keras.layers.GlobalAveragePooling2D()])
    wanted = SCORES["entropy"](model, target=images)
    for target in (ArrayBatches(images), lambda: iter([images[:5], images[5:]]), iter(images)):
        assert SCORES["entropy"](model, target=target) == pytest.approx(wanted)


def test_what_holds_no_examples_or_no_end_is_refused():
    for wrong in (np.float32(1.0), "digits", 3, None, {}):
        with pytest.raises(TypeError, match=r"`target` must hold inputs .*Received: "):
            SCORES["snd"](checkpoint(0), target=wrong)
    with pytest.raises(ValueError, match=r"must have an end.*`dataset.take\(n\)`.*Received: "):
        SCORES["snd"](checkpoint(0), target=tf_data(TARGET).repeat())
    with pytest.raises(ValueError, match="holds no examples"):
        SCORES["snd"](checkpoint(0), target=iter(()))
