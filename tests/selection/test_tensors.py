"""Scores of tensors are those of the arrays that they hold."""

import keras
import numpy as np
import pytest
from support.checkpoints import SOURCE, TARGET, checkpoint

from dann.selection import SCORES, compute_scores

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


@pytest.mark.parametrize("wrong", [TARGET.tolist(), list(TARGET), np.float32(1.0)])
def test_lists_and_numbers_are_refused_with_the_way_to_make_an_array(wrong):
    with pytest.raises(TypeError, match=r"`target` must .*`numpy.asarray\(rows\)`.*Received: "):
        SCORES["snd"](checkpoint(0), target=wrong)
    with pytest.raises(TypeError, match=r"`source` must .*`numpy.asarray\(rows\)`.*Received: "):
        SCORES["source_accuracy"](checkpoint(0), source=(wrong, SOURCE[1]), target=TARGET)
