"""What scores would have chosen, on runs that are made up."""

import pytest

from dann.selection import SCORES
from dann.training.evaluate_run import evaluate_run, evaluation_table


@pytest.fixture
def run(tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "epoch,accuracy,selection/entropy,selection/snd\n"
        "0,0.9,-0.5,3.0\n"
        "1,0.9,-0.2,1.0\n"
        "2,0.9,-0.3,2.0\n"
    )
    (tmp_path / "oracle.csv").write_text(
        "step,cpu_seconds,target/accuracy\n100,1.0,0.6\n200,2.0,0.8\n300,3.0,0.75\n"
    )
    return tmp_path


def test_each_score_is_shown_with_its_choice_and_the_least_regret_first(run):
    evaluation = evaluate_run(run)
    assert evaluation.scores == {
        "entropy": {"step": 200, "score": -0.2, "accuracy": 0.8, "regret": 0.0},
        "snd": {"step": 100, "score": 3.0, "accuracy": 0.6, "regret": pytest.approx(0.2)},
    }
    lines = evaluation_table(evaluation).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["score", "entropy", "snd"]
    assert lines[2].split() == ["snd", "100", "3.0000", "60.0%", "+20.0"]


def test_scores_missing_from_the_run_are_listed_last_with_the_reason(run):
    rows = (run / "metrics.csv").read_text().splitlines()
    rows = [f"{rows[0]},selection/bnm", *(f"{row},-inf" for row in rows[1:])]
    (run / "metrics.csv").write_text("\n".join(rows))
    evaluation = evaluate_run(run)
    assert set(evaluation.scores) == {"entropy", "snd"}
    assert set(evaluation.left_out) == set(SCORES) - {"entropy", "snd"}
    lines = evaluation_table(evaluation).splitlines()[3:]
    found = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert found.pop("bnm").startswith("left out: no number at any checkpoint")
    assert set(found) == set(SCORES) - {"entropy", "snd", "bnm"}
    reason = "not computed: the scores of the training do not name it"
    assert set(found.values()) == {f"left out: {reason}"}


def test_a_run_whose_oracle_is_missing_or_of_other_epochs_is_refused(run):
    (run / "oracle.csv").write_text("step,cpu_seconds,target/accuracy\n100,1.0,0.6\n")
    with pytest.raises(ValueError, match="a value for each checkpoint. Received: 3 and 1"):
        evaluate_run(run)
    (run / "oracle.csv").unlink()
    with pytest.raises(FileNotFoundError, match="trainer.oracle_curve=true.*no .*oracle.csv"):
        evaluate_run(run)
