"""Which candidate to keep, on arrays with a known answer."""

import keras
import numpy as np
import pytest
from scipy import special

from dann.networks import mlp_backbone
from dann.selection import Outputs, average_classifiers, average_logits, recommend


def runs(shift=0.0, seed=0, count=300):
    """Outputs of a source-only model whose features differ by a shift between the domains."""
    rng = np.random.default_rng(seed)
    logits, target, source = rng.normal(size=(3, count, 4))
    return [Outputs(logits, target_features=target + shift, source_features=source)]


def test_without_a_shift_the_source_model_is_kept():
    chosen = [recommend({"source_only": runs(seed=seed), "dann": runs()}) for seed in range(5)]
    assert [one.choice for one in chosen] == ["source_only"] * 5
    assert "no shift" in chosen[0].reasons[0]


def test_with_a_shift_the_average_is_recommended_and_each_candidate_is_told():
    candidates = {"mine": runs(shift=2.0), "dann": runs(seed=1), "cdan": runs()}
    found = recommend(candidates, source_only="mine")
    assert found.choice == "average"
    unlike = np.mean(runs()[0].target_logits.argmax(1) != runs(seed=1)[0].target_logits.argmax(1))
    assert f"dann differs from mine on {unlike:.1%} of the target" in found.reasons
    assert "cdan differs from mine on 0.0% of the target" in found.reasons


def test_the_source_model_must_be_among_the_candidates():
    with pytest.raises(KeyError, match="source_only"):
        recommend({"dann": runs()})


def test_the_mean_is_that_of_the_probabilities():
    logits = np.random.default_rng(0).normal(size=(3, 5, 4)) * 10
    mean = special.softmax(logits, axis=2).mean(axis=0)
    np.testing.assert_allclose(special.softmax(average_logits(list(logits)), axis=1), mean)


def test_the_average_of_classifiers_is_one_model_that_can_be_saved(tmp_path):
    classifiers = [
        keras.Sequential(
            [mlp_backbone((3,), hidden_units=(4,)), keras.layers.Dense(2)], name="same"
        )
        for _ in range(3)
    ]
    inputs = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    functional = [keras.Model(one.inputs[0], one.outputs[0], name="same") for one in classifiers]
    model = average_classifiers(functional)
    expected = np.mean([special.softmax(one(inputs), axis=1) for one in classifiers], axis=0)
    np.testing.assert_allclose(model(inputs), expected, atol=1e-6)
    model.save(tmp_path / "average.keras")
    loaded = keras.models.load_model(tmp_path / "average.keras")
    np.testing.assert_allclose(loaded(inputs), expected, atol=1e-6)
