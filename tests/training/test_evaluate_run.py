import pytest

from dann.training.evaluate_run import tabulate_regret


@pytest.fixture
def run(tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "epoch,accuracy,selection/entropy,selection/bnm\n"
        "0,0.9,-0.5,3.0\n"
        "1,0.9,-0.2,1.0\n"
        "2,0.9,-0.3,2.0\n"
    )
    (tmp_path / "oracle.csv").write_text(
        "step,cpu_seconds,target/accuracy\n100,1.0,0.6\n200,2.0,0.8\n300,3.0,0.75\n"
    )
    return tmp_path


def test_table_has_one_row_per_score_in_order_of_regret(run):
    rows = (run / "metrics.csv").read_text().splitlines()
    rows = [f"{rows[0]},selection/bnm", *(f"{row},-inf" for row in rows[1:])]
    (run / "metrics.csv").write_text("\n".join(rows))
    table = tabulate_regret(run)  # without bnm, which is never finite
    assert list(table.index) == ["entropy", "bnm"]
    assert table.loc["entropy"].to_dict() == {
        "step": 200,
        "score": -0.2,
        "accuracy": 0.8,
        "regret": 0.0,
    }
    assert table.loc["bnm"].tolist() == [100, 3.0, 0.6, pytest.approx(0.2)]


def test_oracle_curve_must_have_the_same_epochs(run):
    (run / "oracle.csv").write_text("step,cpu_seconds,target/accuracy\n100,1.0,0.6\n")
    with pytest.raises(ValueError, match="one value per checkpoint .* Received: 3 and 1"):
        tabulate_regret(run)
    (run / "oracle.csv").unlink()
    with pytest.raises(FileNotFoundError, match="trainer.oracle_curve=true.*no .*oracle.csv"):
        tabulate_regret(run)
