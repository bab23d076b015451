"""Comparisons of methods on tiny arrays."""

import functools
import logging
import re
from unittest import mock

import keras
import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier
from support.arrays import assert_all_equal

import dann
from dann.experiments.comparison import Comparison
from dann.selection import agreement, compute_outputs, info_max
from dann.selection.recommend import find_closest_to_average

STEPS, SEEDS = 8, [0, 1]


def backbone():
    return dann.networks.mlp_backbone((3,), hidden_units=(4,))


SHORT = {"backbone": backbone, "seeds": [0], "steps": 2, "batch_size": 16, "verbose": False}


def make_domains(has_target_labels):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    inputs = rng.normal(size=(90, 3)) + np.eye(3)[labels]
    target = inputs[::-1] + (2.0 if has_target_labels else 9.0)
    target = (target, labels[::-1]) if has_target_labels else target
    return dann.data.arrays((inputs, labels), target)


@pytest.fixture(scope="module")
def comparison():
    methods = {"mine": METHODS["mine"], "gradient_boosting": dann.experiments.compared_runs.boost}
    return dann.compare(make_domains(True), methods, **SHORT | {"seeds": SEEDS, "steps": STEPS})


METHODS = {"source_only": dann.SourceOnly, "target_only": dann.TargetOnly}
METHODS["mine"] = functools.partial(dann.CDAN, strength=0.5)
PARAMS = "mine", *(pytest.param(name, marks=pytest.mark.slow) for name in [*METHODS][:2])


def train_by_hand(setting, seed):
    """Repeats the training of a row."""
    data = make_domains(True)
    dann.training.preparation.start(seed)
    model = METHODS[setting](backbone(), data.num_classes)
    model.compile(keras.optimizers.Adam(beta_1=0.5 if setting == "mine" else 0.9))
    pairs = data.oracle() if setting == "target_only" else data
    model.fit(pairs.batches(16, seed), steps_per_epoch=STEPS, verbose=0)
    return model


@pytest.fixture(scope="module")
def models():
    return {(name, seed): train_by_hand(name, seed) for name in METHODS for seed in SEEDS}


def test_optimizer_argument_trains_every_method():
    settings = SHORT | {"optimizer": lambda: keras.optimizers.SGD(0.0)}
    comparison = dann.compare(make_domains(False), ["dann"], **settings)
    dann.training.preparation.start(0)
    initial = dann.SourceOnly(backbone(), 3).classifier
    assert comparison.recommendation.key[0] == "dann"
    assert_all_equal(comparison.classifier.weights, initial.weights)


@pytest.mark.parametrize("setting", PARAMS)
def test_rows_match_trainings_by_hand(setting, comparison, models):
    data, classes = make_domains(True), []
    rows = comparison.runs.query(f"setting == '{setting}'").set_index("seed").sort_index()
    for seed in SEEDS:
        model, (inputs, labels) = models[setting, seed], data.target_test
        accuracy = np.mean(model.predict(inputs, verbose=0).argmax(axis=1) == labels)
        assert rows.loc[seed, "target/accuracy"] == pytest.approx(accuracy)
        outputs = compute_outputs(model, target=data.target_train, features=False, mixed=False)
        assert rows.loc[seed, "selection/info_max"] == pytest.approx(info_max(outputs), rel=1e-4)
        classes.append(outputs.target_logits)
    if setting == "target_only":
        assert rows["selection/agreement"].isna().all()
    else:
        np.testing.assert_allclose(rows["selection/agreement"], agreement(classes))


def test_new_network_learns_the_average_of_the_runs(comparison, models, tmp_path):
    candidates = comparison.runs.query("oracle == False and setting != 'gradient_boosting'")
    assert set(candidates["setting"]) == {"source_only", "mine", "distilled_average"}
    data = make_domains(True)
    probabilities = [
        special.softmax(models["mine", seed].predict(data.target_train, verbose=0), axis=1)
        for seed in SEEDS
    ]
    closest = find_closest_to_average(probabilities)
    assert comparison.recommendation.key == ("distilled_average", f"seed {closest}")
    outputs = compute_outputs(
        models["mine", closest], source=data.source_test, target=data.target_train, mixed=False
    )
    probe = dann.data.probes.probe_domains(outputs.source_features, outputs.target_features)
    probed = candidates.dropna(subset="probe/low").iloc[0]
    assert (probed["setting"], probed["seed"]) == ("mine", closest)
    assert (probed["probe/low"], probed["probe/high"]) == pytest.approx(probe[1:3])
    dann.training.preparation.start(closest)
    classifier = dann.SourceOnly(backbone(), data.num_classes).classifier
    dann.training.distill(classifier, data.target_train, np.mean(probabilities, axis=0), STEPS)
    inputs = data.target_train[:]
    np.testing.assert_allclose(comparison.classifier(inputs), classifier(inputs), atol=1e-5)
    accuracy = np.mean(classifier(data.target_test[0]).numpy().argmax(1) == data.target_test[1])
    (row,) = candidates.query("setting == 'distilled_average'").to_dict("records")
    assert row["target/accuracy"] == pytest.approx(accuracy)
    comparison.standardizer = dann.data.Standardizer("each").fit(inputs, inputs)
    comparison.encoding = pandas.DataFrame({"input": [0]})
    comparison.save(tmp_path)
    assert {"encoding.csv", "standardizer.json"} <= {path.name for path in tmp_path.iterdir()}
    comparison.standardizer = None
    comparison.save(tmp_path)
    assert not (tmp_path / "standardizer.json").exists()  # the network needs raw inputs now
    loaded = keras.models.load_model(tmp_path / "classifier.keras")
    np.testing.assert_allclose(loaded(inputs), comparison.classifier(inputs), atol=1e-6)
    assert len(pandas.read_csv(tmp_path / "predictions.csv")) == 90
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/predictions.csv").write_text("mine")
    with pytest.raises(FileExistsError, match="mine.*predictions.csv"):
        comparison.save(tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["predictions.csv"]
    (tmp_path / "summary.json").write_text("{}")  # of a training run
    with pytest.raises(FileExistsError, match="without a training run"):
        comparison.save(tmp_path)


def test_comparison_is_printed(comparison):
    text = repr(comparison)  # as a notebook shows it
    assert "95% interval" in text
    assert " without target labels: distilled_average, a new network (target accuracy " in text
    assert re.search(r"^target_only\* +2 ", text, re.MULTILINE)
    mean = comparison.table["target/accuracy"]["mean"]["mine"]
    gains = comparison.runs.query("setting == 'mine'")["gain"]
    half = 12.7062 * gains.std() / 2**0.5  # the t distribution with one degree of freedom
    row = next(line for line in text.splitlines() if line.startswith("mine "))
    assert f"{mean:.1%}" in row
    assert f"{100 * gains.mean():+.1f} ± {100 * half:.1f}" in row


def test_comparison_without_target_labels_has_no_oracle():
    comparison = dann.compare(make_domains(False), [dann.DANN, "els"], **SHORT)
    words = r"because the domains are not aligned \(probe of (DANN|els), seed 0\); then test distil"
    assert re.search(words, " ".join(str(comparison).split()))
    settings = ["DANN", "distilled_average", "els", "source_only"]
    assert sorted(comparison.table.index) == settings
    assert comparison.runs["target/accuracy"].isna().all()
    assert comparison.key == "selection/info_max"
    assert "ranked by InfoMax (agreement needs several seeds)" in str(comparison)


def test_figure_has_a_circle_per_run(comparison):
    runs = comparison.runs.assign(**{"target/accuracy": np.nan, "probe/low": 0.9, "probe/high": 1})
    runs["selection/agreement"] = 0.99 + 0 * runs["selection/agreement"]
    comparison = Comparison(runs, recommendation=comparison.recommendation)
    with mock.patch.object(Figure, "savefig", autospec=True) as savefig:
        comparison.plot("a.png")
    score, source = (figure := savefig.call_args.args[0]).axes  # no panel for the target accuracy
    words = "domains are not aligned .*; then test distilled_average .bold, a new network distilled"
    assert re.search(f"label some .* first, .*{words}", figure.get_suptitle().replace("\n", " "))
    assert score.get_xlim() == (pytest.approx(0.94, abs=0.01), 1)  # the largest agreement
    assert [axes.get_xlabel().split()[0] for axes in figure.axes] == ["agreement", "source"]
    weights = {tick.get_text(): tick.get_fontweight() for tick in score.get_yticklabels()}
    assert [row for row in weights if weights[row] == "bold"] == ["distilled_average"]
    assert figure.legends[0].get_texts()[2].get_text() == "recommended"
    circles, _, cross = source.lines
    assert len({*circles.get_ydata()}) == len(runs)  # also of runs with equal accuracies
    assert cross.get_ydata() == list(weights).index("distilled_average")


def test_few_examples_are_compared_without_a_probe():
    inputs = np.random.default_rng(0).normal(size=(30, 3))
    domains = dann.data.arrays((inputs[:12], np.arange(12) % 2), inputs[12:] + 2)
    comparison = dann.compare(domains, ["dann"], **SHORT | {"batch_size": 8})
    assert comparison.recommendation.setting == "dann"
    assert "a shift is assumed: too few examples of a domain to probe" in str(comparison)


def broken(backbone, classes):
    model = dann.DANN(backbone, classes)
    model.label_head.set_weights([np.nan * weight for weight in model.label_head.get_weights()])
    return model


def test_diverged_run_has_no_rank():
    comparison = dann.compare(make_domains(False), [broken], **SHORT)
    assert list(comparison.runs["setting"]) == ["source_only", "broken"]
    assert comparison.recommendation.setting == "source_only"
    assert "failed: broken, in seed 0" in str(comparison)
    network = backbone()
    network.set_weights([np.nan * weight for weight in network.get_weights()])
    comparison = dann.compare(make_domains(False), [], **SHORT | {"backbone": lambda: network})
    assert comparison.classifier is None
    assert "recommended" not in str(comparison)
    with pytest.raises(ValueError, match="Expected a recommended classifier"):
        comparison.save("folder")


@pytest.mark.slow
def test_default_settings_contain_simple_baselines():
    comparison = dann.compare(make_domains(True), **SHORT)
    adapted = {"standardized", "coral", "mcc", "control", "dann", "cdan", "sdat"}
    rows = {"source_only", "target_only", "gradient_boosting", "distilled_average", *adapted}
    assert set(comparison.table.index) == rows  # the inputs moved, so no classifier is adapted
    assert "estimated class proportions on the target: unknown (" in str(comparison)
    assert comparison.runs["seconds"].gt(0).all()
    inputs, labels = (np.asarray(part) for part in make_domains(True).source_train)
    trees = HistGradientBoostingClassifier(random_state=0).fit(inputs, labels)
    inputs, labels = make_domains(True).target_test
    row = comparison.runs.set_index("setting").loc["gradient_boosting"]
    assert row["target/accuracy"] == np.mean(trees.predict(np.asarray(inputs)) == labels)


@pytest.mark.slow
def test_regression_is_compared_by_errors(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(90, 3))
    numbers = 5000 + 1000 * inputs[:, 0]
    domains = dann.data.arrays((inputs, numbers), (inputs + 2, numbers))
    comparison = dann.compare(domains, **SHORT)
    rows = comparison.runs.set_index("setting")
    names = {"source_only", "target_only", "standardized", "coral", "control", "dann"}
    assert set(rows.index) == names
    setting, run = comparison.recommendation.key
    assert setting in ("coral", "dann")
    table = comparison.predictions.set_index("example").loc[domains.target_names[1]]
    assert table["split"].eq("test").all()
    labels, predicted = domains.target_test[1], table["prediction"].to_numpy()
    error, variance = np.abs(predicted - labels).mean(), np.square(labels - labels.mean()).sum()
    assert rows.loc[setting, "target/mae"] == pytest.approx(error, rel=1e-5)
    r2 = 1 - np.square(predicted - labels).sum() / variance
    assert rows.loc[setting, "target/r2"] == pytest.approx(r2, rel=1e-4)
    gain = 1 - error / rows.loc["source_only", "target/mae"]
    assert rows.loc[setting, "gain"] == pytest.approx(gain, abs=1e-6)
    assert 4000 < predicted.mean() < 8000  # the outputs begin in the scale of the labels
    text = str(comparison)
    assert "regression: without mcc, cdan, sdat, adapted_shares, gradient_boosting" in text
    assert "gain: % less error than source_only with the same seed, ± half of its 95% int" in text
    assert f" labels: {setting}, in {run} (target MAE {error:.6g}, best run " in text
    comparison.plot(tmp_path / "a.png")


def test_adapted_shares_have_a_row_if_only_shares_differ():
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 2, np.arange(1200) % 10 // 8  # of the source, of the target
    inputs, target = (rng.normal(3 * y[:, None] - 1.5, size=(1200, 3)) for y in labels)
    domains = dann.data.arrays((inputs, labels[0]), target)
    comparison = dann.compare(domains, ["adapted_shares"], **{**SHORT, "steps": 300})
    assert comparison.recommendation.setting == "adapted_shares"
    assert re.search("class proportions on the target: class 0 (79|8[01])%", str(comparison))


@pytest.mark.slow
def test_mdan_receives_the_sources_of_the_data():
    domains = dann.data.join_sources([make_domains(False)] * 3)
    created, logger = [], logging.getLogger("tensorflow")
    level = logger.level

    class Recorded(dann.MDAN):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            created.append((self.num_sources, logger.level))

    comparison = dann.compare(iter([domains]), [Recorded, "mdan"], **SHORT)  # one fold
    assert created == [(3, logging.ERROR)]  # without warnings that functions are traced again
    assert logger.level == level
    rows = comparison.runs.set_index(["fold", "target", "setting", "seed"]).index
    names = "Recorded", "distilled_average", "mdan", "source_only"
    assert sorted(rows) == [(0, "target", name, 0) for name in names]
    assert "recommended for target: " in str(comparison)
    with pytest.raises(ValueError, match="at least one pair of domains"):
        dann.compare([], **SHORT)


def test_folds_are_averaged_over_seeds_first(comparison):
    folds = [comparison.runs.assign(fold=number) for number in range(2)]
    folds[1]["target/accuracy"] **= 2
    joined = Comparison(pandas.concat(folds, ignore_index=True))
    rows = joined.runs.query("setting == 'mine'").set_index(["fold", "seed"])
    expected = comparison.runs.query("setting == 'mine'").set_index("seed")["gain"]
    pandas.testing.assert_series_equal(rows["gain"][0], expected)  # with the baseline of the fold
    cells = joined.table["target/accuracy"].loc["mine"]
    means = rows["target/accuracy"].groupby("fold").mean()
    assert cells.tolist() == pytest.approx([2, means.mean(), means.std()])
    assert "± standard deviation over folds" in str(joined)
