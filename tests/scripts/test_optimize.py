"""`scripts/optimize.py` with the real training script, cut short."""

import csv
import sys

import pytest

SHORT = [
    'overrides=["debug=fast","trainer.steps=2","data=npz","data.source=../a.npz",'
    '"data.target=../b.npz","network=mlp","callbacks=none","selection.scores=[info_max]"]',
    'space=["schedule.high=interval(0.1,1)","optimizer=sgd,adam"]',
    "directory=study",
    "trials=1",
]


@pytest.fixture
def folder(tmp_path, with_features):
    """An empty folder beside two files of features."""
    (with_features(tmp_path) / "here").mkdir()
    return tmp_path / "here"


def test_a_study_ends_with_a_ranking_beside_the_oracle_and_is_not_run_twice(folder, run_here):
    result = run_here("optimize.py", SHORT, folder)
    assert result.returncode == 0, result.stderr
    with (folder / "study/optimize.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["run"] for row in rows} == {rows[0]["run"]}
    measures = {row["measure"]: float(row["value"]) for row in rows}
    assert 0 < measures["target/accuracy"] < 1
    assert "regret of selection/info_max: 0.0 points" in result.stdout
    assert {path.name for path in folder.iterdir()} == {"study"}
    again = run_here("optimize.py", SHORT, folder)
    assert "trial 0" in result.stdout
    assert "trial 0" not in again.stdout
    assert result.stdout.endswith(again.stdout)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("objective=target/accuracy", "an oracle's, by which nothing is chosen"),
        ("space=[]", "Received: no lines"),
        ('space=["schedule.hihg=interval(0,1)"]', "hihg"),
        ("trials=many", "trials"),
        ("seed=-1", "an integer from 0 to 4294967295"),
    ],
)
def test_a_wrong_search_ends_with_one_line(argument, message, folder, run_here, check_refused):
    check_refused(run_here("optimize.py", [*SHORT, argument], folder), message)
    assert list(folder.iterdir()) == []


def test_without_optuna_the_extra_is_named(folder, run_here, check_refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    check_refused(run_here("optimize.py", SHORT, folder), "pip install 'dann[optuna]'")
