"""`scripts/train.py -m` as a user runs it."""

import csv
import importlib.util

import pytest

DATA = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp"]
SHORT = [*DATA, "debug=fast", "compare=false"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, run_here, with_features):
    """Two seeds, and each of them with a method whose training breaks off."""
    folder = with_features(tmp_path_factory.mktemp("sweep"))
    jobs = ["-m", "seed=0,1", "trainer.batch_size=32,100000", "hydra.sweep.dir=sweep"]
    return run_here("train.py", [*jobs, *SHORT], folder), folder


def test_a_sweep_is_ranked_by_a_score_beside_the_oracle(sweep):
    result, folder = sweep
    with (folder / "sweep/sweep.csv").open(newline="") as file:
        *ranked, _, refused = csv.DictReader(file)
    values = {(row["rank"], row["measure"]): float(row["value"]) for row in ranked}
    assert {rank for rank, _ in values} == {"1", "2"}
    assert -1 <= values["1", "selection/agreement"] == values["2", "selection/agreement"] <= 1
    assert values["1", "selection/info_max"] >= values["2", "selection/info_max"]
    assert all(0 < values[rank, "target/accuracy"] < 1 for rank in "12")
    assert (refused["rank"], refused["overrides"][:27]) == ("", "seed=1 trainer.batch_size=1")
    assert "regret of selection/agreement" in result.stdout
    assert (folder / "sweep/sweep.png").is_file()


def test_failed_jobs_are_reported_and_do_not_lose_the_others(sweep):
    result, folder = sweep
    assert result.returncode == 1
    assert result.stderr.count("the source must fill one. Received: batch_size=100000") == 2
    assert len(list(folder.glob("sweep/*/summary.json"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_jobs_in_other_processes_are_ranked_as_those_of_one(
    launcher, tmp_path, run_apart, with_features
):
    plugin = f"hydra_{launcher.partition('_')[0]}_launcher"
    found = importlib.util.find_spec("hydra_plugins")  # which exists with the first plugin
    if found is None or importlib.util.find_spec(f"hydra_plugins.{plugin}") is None:
        pytest.skip(f"{plugin} is not installed")
    folder = with_features(tmp_path)
    jobs = ["-m", f"hydra/launcher={launcher}", "trainer.batch_size=32,100000"]
    result = run_apart("train.py", [*jobs, "hydra.sweep.dir=sweep", *SHORT], folder)
    assert result.returncode == 1  # one job cannot fill a batch
    assert "regret of selection/" in result.stdout
    assert result.stdout.count("not finished") == 1
    assert not (folder / "sweep/.jobs").exists()
    plain = run_apart("train.py", [*SHORT, "trainer.batch_size=32", "hydra.run.dir=run"], folder)
    assert plain.returncode == 0
    metrics = (folder / "run/metrics.csv").read_text()
    assert metrics == (folder / "sweep/0/metrics.csv").read_text()
