import keras
import numpy as np
from scipy import special

from dann.networks import mlp_backbone
from dann.selection import Outputs, average_classifiers, average_logits, recommend


def make_runs(shift=0.0, seed=0, count=300):
    """Returns outputs of a model whose features differ by a shift between the domains."""
    rng = np.random.default_rng(seed)
    logits, target, source = rng.normal(size=(3, count, 4))
    return [Outputs(logits, target_features=target + shift, source_features=source)]


def test_source_only_is_recommended_without_a_shift():
    results = [
        recommend({"source_only": make_runs(seed=seed), "dann": make_runs()}) for seed in range(5)
    ]
    assert [result.choice for result in results] == ["source_only"] * 5
    assert "no visible shift" in results[0].reasons[0]


def test_average_is_recommended_with_a_shift():
    candidates = {"mine": make_runs(shift=2.0), "dann": make_runs(seed=1), "cdan": make_runs()}
    result = recommend(candidates, source_only="mine")
    assert result.choice == "average"
    share = np.mean(
        make_runs()[0].target_logits.argmax(1) != make_runs(seed=1)[0].target_logits.argmax(1)
    )
    assert f"dann differs from mine on {share:.1%} of the target" in result.reasons
    assert "cdan differs from mine on 0.0% of the target" in result.reasons


def test_average_logits_averages_probabilities():
    logits = np.random.default_rng(0).normal(size=(3, 5, 4)) * 10
    mean = special.softmax(logits, axis=2).mean(axis=0)
    np.testing.assert_allclose(special.softmax(average_logits(list(logits)), axis=1), mean)


def test_averaged_classifiers_can_be_saved(tmp_path):
    classifiers = [
        keras.Sequential(
            [mlp_backbone((3,), hidden_units=(4,)), keras.layers.Dense(2)], name="same"
        )
        for _ in range(3)
    ]
    inputs = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    functional = [keras.Model(c.inputs[0], c.outputs[0], name="same") for c in classifiers]
    model = average_classifiers(functional)
    expected = np.mean([special.softmax(c(inputs), axis=1) for c in classifiers], axis=0)
    np.testing.assert_allclose(model(inputs), expected, atol=1e-6)
    model.save(tmp_path / "average.keras")
    loaded = keras.models.load_model(tmp_path / "average.keras")
    np.testing.assert_allclose(loaded(inputs), expected, atol=1e-6)
