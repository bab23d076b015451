"""Sweeps with `scripts/train.py -m`, and `scripts/reproduce.py`."""

import json
import re

import pandas
import pytest

DATA = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp"]
SHORT = [*DATA, "debug=fast", "compare=false"]


def test_sweep_is_ranked_by_agreement(tmp_path, run_here, run_well, check_refused, with_features):
    folder = with_features(tmp_path)
    jobs = ["-m", "method=source_only,dann,dirt_t", "seed=0,1", "hydra.sweep.dir=sweep"]
    result = run_here("train.py", [*jobs, *DATA, "debug=fast"], folder)
    rows = pandas.read_csv(folder / "sweep/sweep.csv")
    adapted = rows[rows["selection/agreement"].notna()]
    scores = adapted["selection/agreement"].tolist()
    assert len(scores) == 4
    assert scores == pytest.approx(sorted(scores, reverse=True))
    assert scores[::2] == pytest.approx(scores[1::2])  # of two seeds each
    table = result.stdout[result.stdout.index("mean ± ") :]
    settings = re.findall(r"^(.+?)  +2 .+% ± .+% ± .+$", table, re.MULTILINE)
    assert {*settings} == {"method=dann", "source only"}
    assert "failed: method=dirt_t, in 5_dirt_t_seed1\n" in table
    (run,) = re.findall(r"^Recommended (?:.+, in\s+(\S+)\s+\(target)?", result.stdout, re.M)
    assert "Written to sweep/recommended: classifier.keras, predictions.csv\n" in table
    for name in ("classifier.keras", "predictions.csv"):
        saved = (folder / "sweep/recommended" / name).read_bytes()
        assert saved == (folder / "sweep" / run / name).read_bytes()
    assert table.endswith("scripts/evaluate.py run=sweep/recommended\n")
    # The recommended classifier is evaluated on the data of the runs.
    output = run_well("evaluate.py", ["run=sweep/recommended"], folder)
    assert output.count(" of 20 examples, balanced ") == 2
    refused = run_here("diagnose.py", ["run=sweep/recommended"], folder)
    check_refused(refused, "Diagnose a run, such as run=sweep/0_source_only_seed0")
    # Failed jobs are reported.
    assert (result.returncode, result.stderr.count("required key: method.teacher")) == (1, 2)
    methods = enumerate(["source_only", "dann"])  # that finish
    folders = {path.parent.name for path in folder.glob("sweep/*/summary.json")}
    assert folders == {f"{2 * i + s}_{m}_seed{s}" for i, m in methods for s in (0, 1)}
    # A job of `source_only` serves as the baseline.
    assert ": source only, 4 steps" not in result.stdout
    runs = "0_source_only_seed0", "2_dann_seed0"
    baseline, adapted = (json.loads((folder / f"sweep/{r}/summary.json").read_text()) for r in runs)
    for key in ("source/accuracy", "target/accuracy"):
        assert adapted[f"source_only/{key}"] == baseline[key]
    # Runs of an earlier sweep are not ranked as runs of new settings.
    text = (folder / "sweep/sweep.csv").read_text()
    result = run_here("train.py", [*jobs, *DATA, "debug=fast", "trainer.batch_size=8"], folder)
    assert (result.returncode, result.stderr.count("Expected no finished run")) == (1, 4)
    assert (folder / "sweep/sweep.csv").read_text() == text
    # The spelling of an argument does not matter.
    output = run_here("train.py", [*jobs, *DATA, "debug=fast", "++resume=true"], folder).stdout
    assert output.count("Already finished") == 4 * output.count("\nRecommended without") == 4


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_jobs_in_other_processes_are_ranked(launcher, tmp_path, begin, run_well, with_features):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    folder = with_features(tmp_path)
    jobs = ["-m", f"hydra/launcher={launcher}", "trainer.batch_size=32,100000"]
    process = begin("train.py", [*jobs, "hydra.sweep.dir=sweep", *SHORT], folder)
    assert process.communicate()[0].count("failed: ") == 1
    assert process.returncode == 1  # one job cannot fill a batch
    assert not (folder / "sweep/.jobs").exists()
    run_well("train.py", [*SHORT, "trainer.batch_size=32", "hydra.run.dir=run"], folder)
    metrics = (folder / "run/metrics.csv").read_text()
    assert metrics == (folder / "sweep/0_dann_seed0/metrics.csv").read_text()


@pytest.mark.slow
def test_experiments_are_trained_once_and_tabulated(tmp_path, run_well, with_features):
    tmp_path = tmp_path / "Jörg, (his runs)"
    tmp_path.mkdir()
    with_features(tmp_path)
    overrides = ["data=npz", "data.source=a.npz", "data.target=b.npz"]
    overrides += ["network=mlp", "augmentation=none", "debug=fast", "callbacks=none"]
    short = ["experiments=[digits_to_photos]", "methods=[dann]", "seeds=[0]"]
    short += [f"overrides={json.dumps(overrides)}", f'runs_dir="{tmp_path}/runs/reproduce"']
    short += [f'paths.cache_dir="{tmp_path}/cache"']
    run_well("reproduce.py", short, tmp_path)
    folder = tmp_path / "runs/reproduce"
    rows = (folder / "results.csv").read_text().splitlines()
    assert len(rows) == 2
    assert ",target/accuracy," in rows[0]
    again = run_well("reproduce.py", short, tmp_path)
    assert again.startswith("digits_to_photos: mean ± standard deviation over seeds; ")
    assert (folder / "digits_to_photos/recommended/classifier.keras").is_file()
    assert again.endswith(f"Written to {folder}/results.csv\n")
    assert (folder / "results.csv").read_text().splitlines() == rows
