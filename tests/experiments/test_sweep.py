"""The ranking of a sweep, from invented summaries."""

import json
import re
import shutil

import keras
import numpy as np
import pandas
import pytest

import dann
from dann.experiments.sweep import rank_sweep
from dann.training import distill
from dann.training.run_directory import RunDirectory

ACCURACIES = {"0": (1.5, 0.70), "1": (1.9, 0.80), "2": (1.7, 0.95)}  # score and target accuracy
OVERRIDES = {str(run): [f"seed={run}", "method=dann"] for run in range(4)}


def change(run, **values):
    """Writes the summary of a run with other values."""
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def write_classes(sweep, first=0, **classes):
    """Writes predictions of runs `r0`, `r1`, ..., and classifiers, which are only copied."""
    for run, values in classes.items():
        rows = {"split": "train", "example": range(first, first + len(values)), "class": values}
        table = pandas.DataFrame(rows).assign(probability=0.9)
        RunDirectory(sweep / run[1:]).write_predictions(table)
        (sweep / run[1:] / "classifier.keras").write_text(run)


@pytest.fixture
def sweep(tmp_path):
    for run, (score, accuracy) in ACCURACIES.items():
        summary = {"method": "dann", "oracle": False, "source/accuracy": 0.9}
        scores = {"selection/info_max": score, "selection/bnm": -score, "target/accuracy": accuracy}
        RunDirectory(tmp_path / run).write_summary(summary | scores)
    return tmp_path


def read_rows(directory):
    """Returns the rows of sweep.csv that are no baselines, by run."""
    rows = pandas.read_csv(directory / "sweep.csv", dtype={"run": str, "seed": str})
    return rows[rows["run"].str.isdigit()].set_index("run")


def order(directory):
    return "".join(read_rows(directory).index)


def measure(directory, name):
    """Returns a measure by run, without missing values."""
    return read_rows(directory)[name].dropna().to_dict()


@pytest.mark.parametrize(("score", "expected"), [("info_max", "1203"), ("bnm", "0213")])
def test_runs_are_ranked_by_the_score(sweep, score, expected):
    text = rank_sweep(sweep, score, OVERRIDES)
    assert order(sweep) == expected
    assert re.search(r"90.0% ± 0.0% +81.7% ± 12.6% +-?1.7000\n", text)
    assert measure(sweep, "selection/bnm") == {"0": -1.5, "1": -1.9, "2": -1.7}
    assert measure(sweep, "target/accuracy") == {"0": 0.7, "1": 0.8, "2": 0.95}
    assert read_rows(sweep).loc["3", "overrides"] == "seed=3 method=dann"
    assert "failed: dann, in 3" in text
    assert (sweep / "sweep.png").stat().st_size > 1000


def test_gain_is_paired_with_the_baseline_of_the_seed(sweep):
    baselines = {"0": (0.65, 0.5), "1": (0.7, 0.75), "2": (0.8, 0.625)}
    for run, (baseline, balanced) in baselines.items():
        shares = {"source_only/source/accuracy": 0.9, "source_only/target/accuracy": baseline}
        change(sweep / run, **shares, **{"target/balanced_accuracy": balanced, "seconds": 2.0})
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    assert measure(sweep, "gain") == pytest.approx({"1": 0.1, "2": 0.15, "0": 0.05})
    # t(2 degrees of freedom) = 4.303, times 5 points / sqrt(3)
    assert re.search(r"81.7% ± 12.6% +62.5% ± 12.5% +\+10.0 ± 12.4 +1.7000 +2.0\n", text)
    assert re.search(r"source only +3 +90.0% ± 0.0% +71.7% ± 7.6% +- +\+0.0 ± 0.0", text)
    text = rank_sweep(sweep, "info_max", {"0": ["seed=0"]})
    # One seed has no interval.
    assert re.search(r"gain: points over source only with .* \+5.0 +1.5000 ", text, re.DOTALL)


CLASSES = {"r0": [0, 1, 1, 0], "r1": [0, 1, 0, 0], "r2": [0, 1, 0, 1]}
PROBE = {"accuracy": 0.8, "low": 0.7, "high": 0.9, "loss": 0.5}


def change_probe(run, prefix, **values):
    change(run, **{f"{prefix}probe/{name}": value for name, value in (PROBE | values).items()})


def test_one_run_is_recommended_and_saved(sweep):
    write_classes(sweep, **CLASSES)  # r1 differs least from the average
    change_probe(sweep / "0", "source_only/")
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    assert "separates the domains with an accuracy of 80.0% (chance 50%, 95% inter" in text
    words = ": dann, in 1 (target accuracy 80.0%, best run 95.0%)\nbecause:\n- "
    assert text.count(f"\nRecommended without target labels{words}") == text.count("Recomm") == 1
    folder = sweep / "recommended"
    assert (folder / "classifier.keras").read_text() == "r1"
    assert (folder / "predictions.csv").read_text() == (sweep / "1/predictions.csv").read_text()
    (sweep / "0/classifier.keras").write_text("changed")
    write_classes(sweep, r1=[1, 0, 1, 1], r2=CLASSES["r0"])
    predictions = RunDirectory(folder).write_predictions(pandas.DataFrame(), "new.csv")
    rank_sweep(sweep, "info_max", OVERRIDES)  # replaces its own files
    assert (folder / "classifier.keras").read_text() == "changed"
    assert not predictions.exists()  # of the previous classifier


def test_recommendation_is_not_verified_if_no_run_is_aligned(sweep):
    write_classes(sweep, **CLASSES)
    for run in ACCURACIES:
        change_probe(sweep / run, "", low=0.86)
        change(sweep / run, **{"target/accuracy": np.nan})
    change_probe(sweep / "0", "source_only/")
    words = "first, because the domains are not aligned (probes of 3 runs); then test dann, in 1 "
    assert words in " ".join(rank_sweep(sweep, "info_max", OVERRIDES).split())
    change_probe(sweep / "2", "", low=0.84)
    words = "\nRecommended: dann, in 1; not verified: label some target examples first\nbecause:"
    assert words in rank_sweep(sweep, "info_max", OVERRIDES)
    accuracies = {"source_only/source/accuracy": 0.9, "source_only/target/accuracy": 0.9}
    for accuracy, disagrees in ((0.895, False), (0.8, True)):
        for run in ACCURACIES:
            change(sweep / run, **accuracies, **{"target/accuracy": accuracy})
        text = rank_sweep(sweep, "info_max", OVERRIDES)
        assert ("\nbut by target labels, the gain of dann is -10.0 points" in text) == disagrees
    words = "\nbut the source test accuracy of dann is 84.0%, that of source only 90.0%"
    assert words not in text
    for run in ACCURACIES:
        change(sweep / run, **{"source/accuracy": 0.84})
    assert words in rank_sweep(sweep, "info_max", OVERRIDES)


def test_new_network_learns_the_average_of_the_runs(sweep):
    write_classes(sweep, **CLASSES)
    inputs, rows = np.random.default_rng(0).normal(size=(5, 2)).astype("float32"), [3, 0, 2, 1]
    examples = inputs, np.array([0, 1, 0, 1, 0])
    domains = dann.data.DomainPair(
        *("mine", "phone", examples, examples, inputs[rows], (inputs[4:], np.zeros(1, int)), 2),
        target_rows=(np.array(rows), np.array([4])),
    )
    entry = keras.Input((2,))
    classifier = keras.Model(entry, keras.layers.Dense(2)(entry))
    student = keras.models.clone_model(classifier)
    student.set_weights(classifier.get_weights())
    text = rank_sweep(sweep, "info_max", OVERRIDES, lambda path: (domains, student, 3))
    # The mean probabilities of class 1 in the order of the input; each class has 0.9 or 0.1.
    average = np.array([0.1, 0.9, 1.1 / 3, 1.1 / 3])[rows]
    distill(classifier, inputs[rows], np.stack([1 - average, average], axis=1), steps=3)
    saved = RunDirectory(sweep / "recommended")
    np.testing.assert_allclose(saved.classifier()(inputs), classifier(inputs), atol=1e-6)
    predicted = classifier(inputs).numpy().argmax(axis=1)
    assert saved.predictions()["class"].tolist() == predicted.astype(str).tolist()
    accuracy = np.mean(predicted[4:] == 0)
    assert "a new network was trained for 3 steps to predict the average of" in text
    assert f"labels: distilled_average, a new network (target accuracy {accuracy:.1%}" in text
    table = pandas.read_csv(sweep / "sweep.csv").set_index("run")
    assert table.loc["recommended", "target/accuracy"] == accuracy
    assert table.loc["recommended", "setting"] == "distilled_average"


def test_source_only_is_recommended_without_a_shift(sweep):
    write_classes(sweep, **CLASSES)
    change_probe(sweep / "0", "source_only/", low=0.5)
    assert " labels: source only" in rank_sweep(sweep, "info_max", OVERRIDES)
    assert not (sweep / "recommended").exists()  # no run saved its baseline
    baseline = RunDirectory(sweep / "0/source_only")
    baseline.path.mkdir()
    baseline.classifier_file.write_text("baseline")
    (sweep / "0/standardizer.json").write_text("statistics")
    (sweep / "0/encoding.csv").write_text("columns")
    shutil.copy(sweep / "1/predictions.csv", baseline.path)
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    assert " labels: source only, in 0/source_only\nbecause:" in text
    assert (sweep / "recommended/classifier.keras").read_text() == "baseline"
    assert (sweep / "recommended/standardizer.json").read_text() == "statistics"
    assert (sweep / "recommended/encoding.csv").read_text() == "columns"
    (sweep / "0/standardizer.json").unlink()
    baseline.classifier_file.unlink()
    rank_sweep(sweep, "info_max", OVERRIDES)
    assert not (sweep / "recommended/standardizer.json").exists()
    assert not (sweep / "recommended/classifier.keras").exists()
    change(sweep / "0", method="source_only")
    change_probe(sweep / "0", "", low=0.4)
    text = rank_sweep(sweep, "info_max", {**OVERRIDES, "0": ["seed=0", "method=source_only"]})
    assert " labels: source only, in 0" in text
    assert (sweep / "recommended/classifier.keras").read_text() == "r0"


def test_oracle_comes_last_and_is_never_recommended(sweep):
    write_classes(sweep, r0=[0, 1, 1, 0], r1=[0, 1, 1, 0], r2=[0, 1, 0, 1])
    change(sweep / "1", **{"oracle": True, "target/accuracy": 1.0})
    text = rank_sweep(sweep, "agreement", {**OVERRIDES, "1": ["seed=1", "method=target_only"]})
    assert order(sweep) == "2013"
    assert measure(sweep, "selection/agreement") == {"0": 0, "2": 0}
    assert "method=target_only*" in text
    assert "best run 95.0%" in text


def test_settings_are_ranked_by_agreement_of_their_seeds(sweep):
    for run in ("3", "4"):
        (sweep / run).mkdir()
        (sweep / run / "summary.json").write_text((sweep / "0/summary.json").read_text())
    equal = {"r1": [0, 1, 0, 1], "r3": [0, 1, 0, 1], "r2": [2, 1, 2, 2], "r4": [2, 1, 2, 2]}
    write_classes(sweep, r0=[0, 1, 1, 0], **equal)
    overrides = {
        **{"0": ["seed=0", "method=dann"], "3": ["method=dann", "+seed=3"]},
        **{"1": ["++seed=1", "method=dann"], "4": ["method=cdan", "seed=4"]},
        **{"2": ["method=cdan", "seed=2"]},
    }
    for run, accuracy in (("2", 0.6), ("4", 0.7), ("0", 0.6)):
        shares = {"source_only/source/accuracy": 1, "source_only/target/accuracy": accuracy}
        change(sweep / run, **shares)
    text = rank_sweep(sweep, "agreement", overrides)
    rows = {row[0]: row for row in (re.split("  +", line) for line in text.splitlines()[3:6])}
    counts_and_scores = [(rows[name][1], rows[name][-1]) for name in sorted(rows)]
    assert counts_and_scores == [("2", "1.0000"), ("3", "0.3333"), ("3", "-")]
    assert measure(sweep, "selection/agreement") == {"2": 1, "4": 1, "1": 0.5, "3": 0.5, "0": 0}
    assert order(sweep) == "24130"
    change(sweep / "2", method="source_only+mcc")
    text = rank_sweep(sweep, "agreement", overrides | {"2": ["method=source_only", "seed=2"]})
    assert "\nsource_only+mcc " in text


def test_regression_without_target_labels_is_reported(tmp_path):
    for run in "01":
        summary = {"method": "dann", "oracle": False, "source/mae": 0.5}
        RunDirectory(tmp_path / run).write_summary(summary)
    text = rank_sweep(tmp_path, "agreement", OVERRIDES)
    assert re.search(r"seeds source MAE\n.* 2 +0.5 ± 0\n", text)
    assert "*" not in text
