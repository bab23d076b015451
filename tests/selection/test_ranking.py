"""Agreement, recommendation and scores, which compare runs."""

import numpy as np
import pytest
from references import SOURCE, TARGET, TURNS, build_checkpoint, target_accuracy
from scipy import special

from dann import selection
from dann.selection.recommend import find_closest_to_average, recommend_run
from dann.selection.scores import SCORES, compute_scores_or_worst


def kappa(first, second):
    share = (first == second).mean()
    chance = sum((first == k).mean() * (second == k).mean() for k in range(4))
    return (share - chance) / (1 - chance)


def test_agreement_is_the_mean_kappa():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, size=(5, 40))
    classes[1] = np.where(rng.random(40) < 0.8, classes[0], classes[1])
    expected = [
        np.mean([kappa(first, second) for k, second in enumerate(classes) if k != j])
        for j, first in enumerate(classes)
    ]
    np.testing.assert_allclose(selection.agreement(list(classes)), expected, atol=1e-12)


@pytest.mark.parametrize("classes", [np.zeros(6, int), np.ones(6, int), np.arange(6) % 2])
def test_constant_predictions_agree_by_chance_only(classes):
    assert selection.agreement([np.zeros(6, int), classes]) == [0.0, 0.0]


def make_run(shift=0.0, seed=0, count=300):
    """Returns outputs of a model whose features differ by a shift between the domains."""
    rng = np.random.default_rng(seed)
    logits, target, source = rng.normal(size=(3, count, 4))
    return selection.outputs.Outputs(logits, target_features=target + shift, source_features=source)


def test_source_only_is_recommended_without_a_shift():
    for seed, count in [*((seed, 300) for seed in range(5)), (1, 15)]:
        run = make_run(seed=seed, count=count)
        result = selection.recommend({"source_only": [run] * 2, "dann": [run] * 3})
        assert result.key == ("source_only", 0)
        assert ("no visible shift" if count == 300 else "too few examples") in result.reasons[0]


def test_run_that_agrees_with_the_average_is_recommended():
    runs = [make_run(seed=1), make_run(seed=2), make_run(seed=1)]
    candidates = {"mine": [make_run(shift=2.0)], "dann": runs}
    result = selection.recommend(candidates, source_only="mine")
    assert result.key == ("dann", 0)
    assert "of 3 runs" in result.reasons[1]
    # Without a probe, and for a single run, there is nothing to explain.
    assert recommend_run(None, {("dann", 7): np.eye(2)}) == ("dann", 7, (), None)
    # Runs that learned from the source alone do not join the average.
    two = {(name, 0): np.eye(2) for name in ("dann", "cdan", "source a", "source b")}
    result = recommend_run(None, two, ["source a", "source b"])
    assert "of 2 runs" in result.reasons[0]
    np.testing.assert_array_equal(result.average, np.eye(2))
    source_runs = {key: value for key, value in two.items() if key[0].startswith("source")}
    assert recommend_run(None, source_runs, ["source a", "source b"]).average is None
    assert selection.recommend({"source_only": [make_run(shift=2.0)]}).key == ("source_only", 0)


def test_agreement_with_the_average():
    probabilities = special.softmax(np.random.default_rng(0).normal(size=(5, 9, 3)), axis=2)
    mean = sum(probabilities) / 5
    counts = [np.sum(run.argmax(axis=1) == mean.argmax(axis=1)) for run in probabilities]
    assert find_closest_to_average(list(probabilities)) == counts.index(max(counts))
    numbers = [np.array([[0.0], [9.0]]), np.array([[1.0], [4.0]]), np.array([[1.0], [2.0]])]
    assert find_closest_to_average(numbers) == 1  # the average is 2/3 and 5


def test_scores_choose_the_aligned_checkpoint():
    models = map(build_checkpoint, TURNS)
    rows = [selection.compute_scores(model, source=SOURCE, target=TARGET) for model in models]
    choices = {name: np.argmax([row[name] for row in rows]) for name in SCORES}
    for name in ("entropy", "info_max", "bnm", "mcc"):  # they see the clusters of the target
        assert target_accuracy(TURNS[choices[name]]) == 1.0
    assert target_accuracy(TURNS[choices["source_accuracy"]]) < 0.8


def test_diverged_checkpoint_has_the_worst_scores():
    broken = build_checkpoint(0)
    broken.backbone.trainable_weights[0].assign(np.full((2, 2), np.nan))
    scores = compute_scores_or_worst(broken, source=SOURCE, target=TARGET)
    assert scores == dict.fromkeys(sorted(SCORES), float("-inf"))
