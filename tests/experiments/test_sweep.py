"""The ranking of a sweep, on summaries that are made up."""

import csv
import json

import pytest

from dann.experiments.sweep import rank_sweep

RUNS = {  # score, target accuracy
    "0": (1.5, 0.70),
    "1": (1.9, 0.80),
    "2": (1.7, 0.95),
}
OVERRIDES = {str(run): [f"seed={run}", "method=dann"] for run in range(4)}


@pytest.fixture
def sweep(tmp_path):
    for run, (score, accuracy) in RUNS.items():
        (tmp_path / run).mkdir()
        summary = {
            "oracle": False,
            "selection/info_max": score,
            "selection/snd": -score,
            "source/accuracy": 0.9,
            "target/accuracy": accuracy,
        }
        (tmp_path / run / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def rows_of(directory):
    """A row for each run, in the order of the table, with its measures by name."""
    runs = {}
    with (directory / "sweep.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            measure = {row.pop("measure"): row.pop("value")}
            runs[row["run"]] = runs.get(row["run"], row) | measure
    return list(runs.values())


def test_runs_are_ranked_by_the_score_and_not_by_the_oracle(sweep):
    rank_sweep(sweep, "info_max", OVERRIDES)
    assert [row["run"] for row in rows_of(sweep)] == ["1", "2", "0", "3"]
    rank_sweep(sweep, "snd", OVERRIDES)
    assert [row["run"] for row in rows_of(sweep)] == ["0", "2", "1", "3"]


def test_a_failed_run_has_a_row_without_numbers(sweep):
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    last = rows_of(sweep)[-1]
    assert (last["overrides"], last["rank"]) == ("seed=3 method=dann", "")
    assert last[""] == ""
    assert "target/accuracy" not in last
    assert "seed=3 method=dann            not finished" in text


def test_the_regret_is_the_best_target_accuracy_minus_that_of_the_chosen_run(sweep):
    assert "regret of selection/info_max: 15.0 points" in rank_sweep(sweep, "info_max", OVERRIDES)
    assert "regret of selection/snd: 25.0 points" in rank_sweep(sweep, "snd", OVERRIDES)


def test_a_run_that_learned_from_target_labels_is_listed_but_not_ranked(sweep):
    path = sweep / "1/summary.json"
    oracle = {**json.loads(path.read_text()), "oracle": True, "target/accuracy": 1.0}
    path.write_text(json.dumps(oracle))
    text = rank_sweep(sweep, "info_max", OVERRIDES)
    rows = {row["run"]: row for row in rows_of(sweep)}
    assert [rows[run]["rank"] for run in "2013"] == ["1", "2", "", ""]
    assert rows["1"]["target/accuracy"] == "1.0"
    assert "seed=1 method=dann   an oracle, not ranked" in text
    assert "regret of selection/info_max: 0.0 points" in text


def test_the_table_holds_all_scores_and_the_oracle(sweep):
    rank_sweep(sweep, "info_max", OVERRIDES)
    first = rows_of(sweep)[0]
    assert float(first["selection/snd"]) == -1.9
    assert float(first["target/accuracy"]) == 0.8
    assert (sweep / "sweep.png").stat().st_size > 1000


def test_a_table_that_cannot_be_finished_leaves_the_earlier_one(sweep, monkeypatch):
    rank_sweep(sweep, "info_max", OVERRIDES)
    before = (sweep / "sweep.csv").read_bytes()

    class Full:
        def __init__(self, file, **options):
            file.write("half of ")

        def writerow(self, row):
            raise OSError("No space left on device")

    monkeypatch.setattr(csv, "writer", Full)
    with pytest.raises(OSError, match="No space"):
        rank_sweep(sweep, "snd", OVERRIDES)
    assert (sweep / "sweep.csv").read_bytes() == before
    assert not list(sweep.glob("*.part*"))


def test_without_a_finished_run_nothing_is_ranked(tmp_path, sweep):
    assert rank_sweep(sweep, "dev", OVERRIDES) is None
    assert not (sweep / "sweep.csv").exists()
