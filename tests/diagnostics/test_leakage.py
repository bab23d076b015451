"""What fresh probes find in features of which the answer is known."""

import importlib

import keras
import numpy as np
import pytest

import dann
from dann.diagnostics import leakage

RNG = np.random.default_rng(5)
COUNT = 240
SITE = RNG.integers(0, 3, COUNT)
AGE = RNG.normal(50, 9, COUNT)
NOISE = RNG.normal(size=(COUNT, 2))
CENTERS = np.array([[0, 0], [5, 0], [0, 5]])


def test_it_finds_what_is_there_and_not_what_is_not():
    names = np.array(["a", "b", "c"])[SITE]
    features = np.column_stack([CENTERS[SITE] + NOISE, AGE])
    nuisances = {
        "site": names,
        "age": AGE,
        "turn": np.arange(COUNT) % 2,
        "drawn": NOISE[::-1, 0],
    }
    found = leakage(features, None, nuisances)
    assert [one.is_detected for one in found.values()] == [True, True, False, False]
    assert [one.chance for one in found.values()] == [pytest.approx(1 / 3), 0, 0.5, 0]
    assert found["site"].score > 0.95
    assert found["age"].probes["linear"] > 0.99
    for one in found.values():
        assert one.low <= one.score <= one.high
    assert str(found["site"]).startswith(
        f"site: {found['site'].score:.2g} (chance 0.33, 95% interval"
    )
    assert str(found["turn"]).endswith("not found")


def test_a_difference_that_is_not_linear_is_found_by_the_other_probes():
    ring = np.hypot(*NOISE.T) > 1.2
    found = leakage(NOISE, None, {"ring": ring})["ring"]
    assert found.probes["linear"] < 0.65 < 0.85 < found.score
    assert found.score == pytest.approx(max(found.probes.values()), abs=0.05)
    hill = 50 + 9 * NOISE[:, 0] ** 2  # such as years, which are not near 0
    probes = leakage(NOISE, None, {"hill": hill})["hill"].probes
    assert probes["linear"] < 0.1 < 0.8 < min(probes["forest"], probes["network"])


def test_rare_values_count_as_much_as_others():
    rare = np.arange(COUNT) % 12 == 0
    alike = leakage(NOISE, None, {"rare": rare})["rare"]
    assert alike.chance == 0.5
    assert not alike.is_detected  # although one who always says the frequent value is right in 92%
    assert leakage(NOISE + 6 * rare[:, None], None, {"rare": rare})["rare"].score > 0.95


def test_with_labels_it_also_tells_what_is_beside_the_label():
    """The features tell the label alone, and the label the site."""
    labels = np.where(RNG.random(COUNT) < 0.8, SITE, (SITE + 1) % 3)
    features = CENTERS[labels] + NOISE
    found = leakage(features, None, {"site": SITE, "age": AGE + 20 * labels}, labels)
    assert [found[name].is_detected for name in ("site", "age")] == [True, True]
    given = [found[f"{name} given the label"] for name in ("site", "age")]
    assert [one.is_detected for one in given] == [False, False]
    assert given[0].chance == pytest.approx(0.5)  # each label has two sites


def test_what_belongs_to_one_group_is_on_one_side():
    """Each patient has a site, and features of their own that tell nothing else."""
    rng = np.random.default_rng(0)
    patients = rng.integers(0, 40, COUNT)
    features = rng.normal(size=(40, 6))[patients] + 0.05 * rng.normal(size=(COUNT, 6))
    site = {"site": patients % 2}
    alone = leakage(features, None, site)["site"]
    grouped = leakage(features, None, site, groups=patients)["site"]
    assert grouped.score < 0.7 < 0.9 < alone.score
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_missing_values_are_left_out():
    site, age = SITE.copy(), AGE.copy()
    site[:100], age[50:150] = -1, np.nan
    features = np.column_stack([CENTERS[SITE] + NOISE, AGE])
    found = leakage(features, None, {"site": site, "age": age})
    assert found["site"].chance == pytest.approx(1 / 3)
    assert found["age"].probes["linear"] > 0.99
    with pytest.raises(ValueError, match="more than one value.*Received: 11 of 'site'"):
        leakage(features, None, {"site": np.where(np.arange(COUNT) < 11, SITE, -1)})


def test_features_are_those_of_the_backbone_or_what_a_network_gives():
    x = NOISE.astype("float32")
    backbone = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model = dann.Invariant(backbone, 2, nuisances={"side": 2})
    side = {"side": NOISE[:, 0] > 0}
    features = keras.ops.convert_to_numpy(backbone(x))
    assert leakage(model, x, side) == leakage(backbone, x, side) == leakage(features, None, side)


def test_in_each_third_counts_the_probe_that_is_best_on_the_other_two(monkeypatch):
    """A probe is right on the first third but for one example, another on the other two."""
    values, fold = np.arange(30) % 2, np.arange(30) // 10
    first, second = fold == 0, fold != 0
    first[0] = False
    found = np.stack([np.where(right, values, 1 - values) for right in (first, second, 0 * fold)])
    module = importlib.import_module("dann.diagnostics.leakage")  # the name is the function's too
    monkeypatch.setattr(module, "_predict", lambda *_: (found, fold))
    assert leakage(np.zeros((30, 1)), None, {"side": values})["side"].score == 2 / 3
