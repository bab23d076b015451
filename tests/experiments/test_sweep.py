"""The ranking of a sweep, from invented summaries."""

import json
import math
import re

import pandas
import pytest

from dann.experiments.sweep import rank_sweep
from dann.training import RunDirectory

ACCURACIES = {"0": (1.5, 0.70), "1": (1.9, 0.80), "2": (1.7, 0.95)}  # score and target accuracy
OVERRIDES = {str(run): [f"seed={run}", "method=dann"] for run in range(4)}
SAME = {"r0": [0, 1, 2], "r2": [0, 1, 2]}


def change(run, **values):
    """Writes the summary of a run with other values."""
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def predictions(classes, first=0):
    """Returns predictions of these classes for training examples of the target."""
    rows = range(first, first + len(classes))
    return pandas.DataFrame({"split": "train", "example": rows, "class": classes})


def write_classes(sweep, **classes):
    """Writes the predicted classes of runs `r0`, `r1`, ..., for the same target examples."""
    for run, values in classes.items():
        RunDirectory(sweep / run[1:]).write_predictions(predictions(values))


@pytest.fixture
def sweep(tmp_path):
    for run, (score, accuracy) in ACCURACIES.items():
        (tmp_path / run).mkdir()
        (tmp_path / run / "summary.json").write_text('{"oracle": false, "source/accuracy": 0.9}')
        scores = {"selection/info_max": score, "selection/bnm": -score}
        change(tmp_path / run, **scores, **{"target/accuracy": accuracy})
    return tmp_path


def read_rows(directory):
    """Returns the rows of sweep.csv, and the runs in their order."""
    rows = pandas.read_csv(directory / "sweep.csv", dtype={"run": str, "rank": "Int64"})
    return rows, "".join(rows["run"].unique())


def measure(directory, name):
    """Returns a measure by run, in the order of sweep.csv."""
    rows = read_rows(directory)[0]
    return rows[rows["measure"] == name].set_index("run")["value"].to_dict()


@pytest.mark.parametrize(
    ("score", "order", "accuracy"), [("info_max", "1203", "80.0"), ("bnm", "0213", "70.0")]
)
def test_runs_are_ranked_by_the_score(sweep, score, order, accuracy):
    text = rank_sweep(sweep, score, OVERRIDES)
    rows, runs = read_rows(sweep)
    assert runs == order
    assert f"target labels: all seeds, in {order[0]}\n" in text
    assert f"target accuracy of this run: {accuracy}%; best run: 95.0%\n" in text
    assert re.search(r"1.7000 ± 0.2000 +90.0% ± 0.0% +81.7% ± 12.6%\n", text)
    assert measure(sweep, "selection/bnm") == {"0": -1.5, "1": -1.9, "2": -1.7}
    assert measure(sweep, "target/accuracy") == {"0": 0.7, "1": 0.8, "2": 0.95}
    assert list(rows["rank"].unique()[:3]) == [1, 2, 3]
    assert (sweep / "sweep.png").stat().st_size > 1000


def test_table_shows_the_balanced_accuracy(sweep):
    for run in ACCURACIES:
        change(sweep / run, **{"target/balanced_accuracy": 0.625 + int(run) / 8})
    overrides = {run: [*arguments, "method=cdan"][::-1] for run, arguments in OVERRIDES.items()}
    overrides["2"] = ["method=mcd", "seed=2"]
    text = rank_sweep(sweep, "info_max", overrides)
    assert "balanced (oracle)" in text
    assert re.search(r"90.0% ± 0.0% +75.0% ± 7.1% +68.8% ± 8.8%\n", text)
    assert measure(sweep, "target/balanced_accuracy") == {"1": 0.75, "2": 0.875, "0": 0.625}


@pytest.mark.parametrize(("low", "choice"), [(0.5, "source_only"), (0.7, "average")])
@pytest.mark.parametrize("prefix", ["source_only/", ""])
def test_probe_of_source_only_gives_a_recommendation(sweep, low, choice, prefix):
    probe = {"accuracy": 0.8, "low": low, "high": 0.9, "loss": 0.5}
    change(sweep / "1", **{f"{prefix}probe/{name}": value for name, value in probe.items()})
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    assert "separates the domains with an accuracy of 80.0% (chance 50%, 95% inter" in text
    assert f"recommended: {choice}\n" in text


def test_failed_run_has_a_row_without_numbers(sweep):
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    last = read_rows(sweep)[0].iloc[-1]
    assert last["overrides"] == "seed=3 method=dann"
    assert last[["rank", "measure", "value"]].isna().all()
    assert "not ranked: all seeds, in 3 (not finished)" in text


def test_oracle_is_listed_but_not_ranked(sweep):
    change(sweep / "1", **{"oracle": True, "target/accuracy": 1.0})
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    rows, order = read_rows(sweep)
    assert order == "2013"
    assert rows["rank"][rows["run"].isin(["1", "3"])].isna().all()
    assert measure(sweep, "target/accuracy")["1"] == 1
    assert "not ranked: all seeds, in 1 (uses target labels)" in text
    assert "best run: 95.0%" in text


def test_nothing_is_ranked_without_the_score(sweep):
    assert rank_sweep(sweep, "mcc", OVERRIDES) is None
    assert rank_sweep(sweep, "bnm", {"3": ["seed=3"]}) is None
    assert not (sweep / "sweep.csv").exists()


def test_table_without_target_labels_has_no_accuracy(sweep):
    for run in ACCURACIES:
        change(sweep / run, **{"target/accuracy": math.nan})
    assert "target accuracy of this run" not in rank_sweep(sweep, "bnm", OVERRIDES)


def test_seeds_are_ranked_by_agreement(sweep):
    write_classes(sweep, r0=[0, 1, 1, 0], r1=[0, 1, 0, 1], r2=[0, 1, 0, 1])
    text = rank_sweep(sweep, "agreement", OVERRIDES)
    assert measure(sweep, "selection/agreement") == {"1": 0.5, "2": 0.5, "0": 0.0}
    assert read_rows(sweep)[1] == "1203"  # InfoMax ranks equal runs
    assert "target accuracy of this run: 80.0%; best run: 95.0%" in text
    rank_sweep(sweep, "bnm", OVERRIDES)
    assert measure(sweep, "selection/agreement") == {"0": 0.0, "2": 0.5, "1": 0.5}


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
        change(
            sweep / run,
            **{"source_only/source/accuracy": 1, "source_only/target/accuracy": accuracy},
        )
    text = rank_sweep(sweep, "agreement", overrides)
    rows = [re.split("  +", line) for line in text.splitlines()[2:5]]
    assert [row[:3] for row in rows] == [
        ["method=cdan", "2", "1.0000"],
        ["method=dann", "3", "0.3333 ± 0.2887"],
        ["source only", "3", "-"],
    ]
    expected = {"2": 1, "4": 1, "1": 0.5, "3": 0.5, "0": 0}
    assert measure(sweep, "selection/agreement") == expected
    assert read_rows(sweep)[1] == "24130"


def test_info_max_ranks_if_a_setting_has_one_seed(sweep):
    write_classes(sweep, **SAME)
    text = rank_sweep(sweep, "agreement", OVERRIDES)
    assert "several seeds of each setting; runs with one seed: 1\n" in text
    assert read_rows(sweep)[1] == "1203"
    assert measure(sweep, "selection/agreement") == {"2": 1, "0": 1}
    assert "chosen by selection/info_max" in text
    RunDirectory(sweep / "1").write_predictions(predictions([0, 1, 2], first=7))
    assert rank_sweep(sweep, "agreement", OVERRIDES) == text
    (sweep / "1/predictions.csv").write_bytes(b"")
    assert rank_sweep(sweep, "agreement", OVERRIDES) == text


@pytest.mark.parametrize("seeds", ["000", [None] * 3], ids=["one seed", "no seed"])
def test_runs_with_one_seed_are_not_compared(sweep, seeds):
    write_classes(sweep, **SAME, r1=[0, 1, 2])
    overrides = {str(k): [] if seed is None else [f"seed={seed}"] for k, seed in enumerate(seeds)}
    text = rank_sweep(sweep, "agreement", overrides)
    assert "needs several seeds of each setting\nchosen by selection/info_max" in text
    assert measure(sweep, "selection/agreement") == {}


def test_equal_scores_keep_the_order_and_nan_is_last(sweep):
    for run in ACCURACIES:
        change(sweep / run, **{"selection/bnm": math.nan if run == "1" else 1.0})
    rank_sweep(sweep, "bnm", OVERRIDES)
    assert read_rows(sweep)[1] == "0213"


def test_oracle_does_not_count_in_the_agreement(sweep):
    change(sweep / "1", oracle=True)
    write_classes(sweep, r0=[0, 1, 1, 0], r1=[0, 1, 1, 0], r2=[0, 1, 0, 1])
    rank_sweep(sweep, "agreement", OVERRIDES)
    assert measure(sweep, "selection/agreement") == {"0": 0, "2": 0}
