"""The ranking of a sweep, on summaries that are made up."""

import csv
import json
import math

import pytest

from dann.experiments.sweep import rank_sweep
from dann.training import RunDirectory

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


def give_classes(sweep, **classes):
    """Writes the target's classes of runs `r0`, `r1` and so on, all of the same examples."""
    for run, values in classes.items():
        RunDirectory(sweep / run[1:]).write_target_classes("digest", values)


def rows_of(directory):
    """A dict for each run, in the order of the table, with its measures by name."""
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


def test_without_a_finished_run_nothing_is_ranked(tmp_path, sweep):
    assert rank_sweep(sweep, "dev", OVERRIDES) is None
    assert not (sweep / "sweep.csv").exists()


def test_runs_that_differ_in_the_seed_are_ranked_by_their_agreement_on_the_target(sweep):
    give_classes(sweep, r0=[0, 1, 1, 0], r1=[0, 1, 0, 1], r2=[0, 1, 0, 1])
    text = rank_sweep(sweep, "agreement", OVERRIDES)
    rows = rows_of(sweep)
    assert [row["run"] for row in rows] == ["1", "2", "0", "3"]
    assert [float(row["selection/agreement"]) for row in rows[:3]] == [0.5, 0.5, 0.0]
    assert "regret of selection/agreement: 15.0 points" in text


def test_settings_are_ranked_by_the_agreement_of_their_own_seeds(sweep):
    for run in ("3", "4"):
        (sweep / run).mkdir()
        (sweep / run / "summary.json").write_text((sweep / "0/summary.json").read_text())
    give_classes(
        sweep,
        **{"r0": [0, 1, 1, 0], "r1": [0, 1, 0, 1], "r3": [0, 1, 0, 1]},
        **{"r2": [2, 1, 2, 2], "r4": [2, 1, 2, 2]},
    )
    overrides = {
        **{"0": ["seed=0", "method=dann"], "3": ["method=dann", "+seed=3"]},
        **{"1": ["++seed=1", "method=dann"], "4": ["method=cdan", "seed=4"]},
        **{"2": ["method=cdan", "seed=2"]},
    }
    rank_sweep(sweep, "agreement", overrides)
    values = {row["run"]: float(row["selection/agreement"]) for row in rows_of(sweep)}
    assert values == {"2": 1, "4": 1, "1": 0.5, "3": 0.5, "0": 0}
    assert list(values) == ["2", "4", "1", "3", "0"]  # equal ones by InfoMax


def test_a_sweep_with_a_run_that_has_no_other_to_agree_with_is_ranked_by_info_max(sweep, capsys):
    give_classes(sweep, r0=[0, 1, 2], r2=[0, 1, 2])
    text = rank_sweep(sweep, "agreement", OVERRIDES)
    told = (
        "Ranked by selection/info_max: agreement needs several seeds of each setting; one seed: 1\n"
    )
    assert capsys.readouterr().out == told
    assert [row["run"] for row in rows_of(sweep)] == ["1", "2", "0", "3"]
    assert float(rows_of(sweep)[1]["selection/agreement"]) == 1
    assert "regret of selection/info_max" in text
    RunDirectory(sweep / "1").write_target_classes("of other examples", [0, 1, 2])
    assert rank_sweep(sweep, "agreement", OVERRIDES) == text
    (sweep / "1/target_classes.npz").write_bytes(b"")
    assert rank_sweep(sweep, "agreement", OVERRIDES) == text


def test_a_finished_run_without_the_score_is_not_called_unfinished(sweep):
    for run in RUNS:
        path = sweep / run / "summary.json"
        summary = json.loads(path.read_text())
        del summary["selection/info_max"]
        path.write_text(json.dumps(summary))
    give_classes(sweep, r0=[0, 1, 2], r2=[0, 1, 2])
    text = rank_sweep(sweep, "agreement", OVERRIDES)
    assert [row["rank"] for row in rows_of(sweep)] == ["1", "2", "", ""]
    assert "seed=1 method=dann  no selection/agreement" in text
    assert "seed=3 method=dann            not finished" in text


@pytest.mark.parametrize("seeds", ["000", [None] * 3], ids=["one seed", "no seed"])
def test_runs_with_the_same_seed_are_not_compared(sweep, seeds, capsys):
    give_classes(sweep, r0=[0, 1, 2], r1=[0, 1, 2], r2=[0, 1, 2])
    overrides = {str(k): [] if seed is None else [f"seed={seed}"] for k, seed in enumerate(seeds)}
    assert "regret of selection/info_max" in rank_sweep(sweep, "agreement", overrides)
    told = "Ranked by selection/info_max: agreement needs several seeds of each setting\n"
    assert capsys.readouterr().out == told
    assert "selection/agreement" not in rows_of(sweep)[0]


def test_of_runs_with_the_same_score_the_earlier_comes_first(sweep):
    for run in RUNS:
        path = sweep / run / "summary.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "selection/snd": 1.0}))
    rank_sweep(sweep, "snd", OVERRIDES)
    assert [row["run"] for row in rows_of(sweep)] == ["0", "1", "2", "3"]


def test_a_score_that_is_no_number_comes_last(sweep):
    path = sweep / "1/summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "selection/info_max": math.nan}))
    rank_sweep(sweep, "info_max", OVERRIDES)
    assert [row["run"] for row in rows_of(sweep)] == ["2", "0", "1", "3"]


def test_an_oracle_has_no_part_in_the_agreement_of_the_others(sweep):
    path = sweep / "1/summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "oracle": True}))
    give_classes(sweep, r0=[0, 1, 1, 0], r1=[0, 1, 1, 0], r2=[0, 1, 0, 1])
    rank_sweep(sweep, "agreement", OVERRIDES)
    values = {row["run"]: row.get("selection/agreement") for row in rows_of(sweep)}
    assert values == {"0": "0.0", "1": None, "2": "0.0", "3": None}


def test_the_agreement_is_in_the_table_whatever_it_is_ranked_by(sweep):
    give_classes(sweep, r0=[0, 1, 1, 0], r1=[0, 1, 0, 1], r2=[0, 1, 0, 1])
    rank_sweep(sweep, "snd", OVERRIDES)
    assert [row["run"] for row in rows_of(sweep)] == ["0", "2", "1", "3"]
    assert float(rows_of(sweep)[1]["selection/agreement"]) == 0.5
