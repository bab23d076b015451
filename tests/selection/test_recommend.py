import numpy as np
from scipy import special

from dann.selection import Outputs, recommend
from dann.selection.recommend import find_closest_to_average, recommend_run


def make_run(shift=0.0, seed=0, count=300):
    """Returns outputs of a model whose features differ by a shift between the domains."""
    rng = np.random.default_rng(seed)
    logits, target, source = rng.normal(size=(3, count, 4))
    return Outputs(logits, target_features=target + shift, source_features=source)


def test_source_only_is_recommended_without_a_shift():
    for seed in range(5):
        candidates = {"source_only": [make_run(seed=seed)] * 2, "dann": [make_run(seed=9)] * 3}
        result = recommend(candidates)
        assert result.key == ("source_only", 0)
        assert "no visible shift" in result.reasons[0]


def test_run_that_agrees_with_the_average_is_recommended():
    runs = [make_run(seed=1), make_run(seed=2), make_run(seed=1)]
    candidates = {"mine": [make_run(shift=2.0)], "dann": runs}
    result = recommend(candidates, source_only="mine")
    assert result.key == ("dann", 0)
    assert "of 3 runs" in result.reasons[1]
    # Without a probe, and for a single run, there is nothing to explain.
    assert recommend_run(None, {("dann", 7): np.eye(2)}) == ("dann", 7, ())
    assert recommend({"source_only": [make_run(shift=2.0)]}).key == ("source_only", 0)


def test_agreement_with_the_average():
    probabilities = special.softmax(np.random.default_rng(0).normal(size=(5, 9, 3)), axis=2)
    mean = sum(probabilities) / 5
    counts = [
        sum(run[i].tolist().index(max(run[i])) == mean[i].argmax() for i in range(9))
        for run in probabilities
    ]
    assert find_closest_to_average(list(probabilities)) == counts.index(max(counts))
