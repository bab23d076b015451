"""`scripts/train.py method=invariant` on one labeled table with nuisances."""

import json
import re
import shutil

import keras
import numpy as np
import pandas
import pytest

from dann.diagnostics.leakage import Leakage

LEAKAGE = Leakage("ward", 0.9, 0.8, 1.0, 0.3, {})
SHORT = ["debug=fast", "callbacks=none", "method=invariant", "network=tabular"]
CSV = ["data=csv", "data.path=a.csv", "data.label=kind", "data.nuisances=[site,age]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 150 rows with two inputs, the label, three sites, ages and 30 persons."""
    rng = np.random.default_rng(0)
    site, kind = rng.integers(0, 3, 150), np.arange(150) % 2
    x = np.column_stack([kind + site, 2 * kind - site]) + rng.normal(0, 0.3, (150, 2))
    table = pandas.DataFrame(x, columns=["width", "height"]).assign(
        kind=np.array(["no", "yes"])[kind], site=np.array(["b", "a", "c"])[site], one=1
    )
    # All of the class `yes` are in ward x; that all in ward y are `no` is no problem.
    table["ward"] = np.where(kind == 1, "x", np.array(["x", "y", "z"])[site])
    table = table.assign(age=rng.uniform(20, 80, 150), person=np.arange(150) // 5)
    table.loc[[0, 7], "site"] = ""
    table.loc[9, "age"] = np.nan
    folder = tmp_path_factory.mktemp("nuisances")
    table.to_csv(folder / "a.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def finished(folder, run_well):
    """The arguments and the output of a run of two epochs in `run`."""
    settings = [*SHORT, *CSV, "data.groups=person", "method.condition_on_label=true"]
    settings += ["method.strength={site: 0.5, age: 2}"]
    return settings, run_well("train.py", [*settings, "hydra.run.dir=run"], folder, draws=True)


def read_summary(run):
    return json.loads((run / "summary.json").read_text())


@pytest.mark.slow
def test_run_reports_leakage_before_and_after(folder, finished, run_well):
    summary, output = read_summary(folder / "run"), finished[1]
    assert summary["nuisances"] == {"site": 3, "age": "number"}
    reversals = keras.models.load_model(folder / "run/checkpoints/last.keras").reversals
    assert [float(reversals[name].strength) for name in ("site", "age")] == [0.5, 2]
    assert "Nuisances: site (3 values), age number\n" in output
    names = ["site", "site given the label", "age", "age given the label"]
    for prefix in ("", "source_only/"):
        leakage = summary[f"{prefix}leakage"]
        assert list(leakage) == names
        assert leakage["site"]["chance"] == pytest.approx(1 / 3)
        assert all(f"\n  {Leakage(**fields)}\n" in output for fields in leakage.values())
        num_correct = 30 * summary[f"{prefix}source/accuracy"]
        assert num_correct == pytest.approx(round(num_correct), abs=1e-4)
        cells = summary[f"{prefix}accuracy_by_nuisance"]["site"]
        assert set(cells) <= {"a", "b", "c"}
        assert all(set(column) <= {"no", "yes"} for column in cells.values())
    assert "\naccuracy by class and site:\n" in output
    assert re.search(r"\nyes .*%( → )\d+%", output)
    assert not any(key.startswith(("target/", "selection/")) for key in summary)
    rows = pandas.read_csv(folder / "run/predictions.csv")
    assert sorted(rows["example"]) == list(range(150))
    assert {path.stem for path in folder.glob("run/figures/*")} == {"confusion", "curves"}
    output = run_well("evaluate.py", ["run=run"], folder)
    assert f"accuracy {summary['source/accuracy']:.1%} of 30 examples" in output
    # New rows need neither labels nor nuisances.
    new = pandas.read_csv(folder / "a.csv").drop(columns=["site", "kind"])
    new.to_csv(folder / "new.csv", index=False)
    run_well("evaluate.py", ["run=run", "target=new.csv"], folder)
    assert len(pandas.read_csv(folder / "run/predictions_new.csv")) == 150


@pytest.mark.slow
def test_sweep_over_strengths_draws_a_tradeoff(folder, run_here, monkeypatch):
    measured = iter([LEAKAGE, LEAKAGE, LEAKAGE._replace(score=0.5)])  # measuring takes seconds
    function = "dann.training.evaluation.leakage"
    monkeypatch.setattr(function, lambda *_: {"ward": next(measured)})
    jobs = ["-m", "method.strength=0,1", "hydra.sweep.dir=sweep"]
    result = run_here("train.py", [*jobs, *SHORT, *CSV[:-1], "data.nuisances=[ward]"], folder)
    assert result.stderr.count("100% of class yes have the value x (") == 2  # one per job
    assert result.stderr.count(". Hiding ward hides this class, too") == 2
    output = result.stdout
    assert output.count(": strength 0, 4 steps") == 1  # the jobs share the baseline
    assert (folder / "sweep/tradeoff.png").stat().st_size > 10_000
    lines = [line.split() for line in output[output.rindex("strength ") :].splitlines()]
    for strength, line in zip("01", lines[1:3], strict=True):
        summary = read_summary(folder / f"sweep/{strength}_invariant_seed0")
        values = summary["source/accuracy"], summary["leakage"]["ward"]["score"]
        assert line == [strength, *(f"{value:.3f}" for value in values)]


REFUSALS = {
    "method=dann": "method=invariant and data.nuisances=[...] go together",
    "selection=default": "Use selection=none",
    "callbacks=diagnostics": "Expected both domains",
}


@pytest.mark.parametrize(("override", "words"), REFUSALS.items(), ids=REFUSALS)
def test_invalid_nuisances_print_one_line(override, words, folder, run_here, check_refused):
    arguments = [*SHORT, *CSV, "hydra.run.dir=other", "compare=false"]
    result = run_here("train.py", [*arguments, override], folder)
    check_refused(result, words, silent=False)
    assert not (folder / "other/summary.json").exists()


@pytest.mark.slow
def test_stopped_run_resumes_with_equal_results(folder, finished, run_well, monkeypatch):
    monkeypatch.setattr("dann.training.evaluation.leakage", lambda *_: {})  # takes seconds
    parts = folder / "parts"
    shutil.copytree(folder / "run", parts)
    (parts / "summary.json").unlink()
    (parts / "checkpoints/step-4.npz").unlink()
    resumed = [*finished[0], "hydra.run.dir=parts", "resume=true"]
    output = run_well("train.py", resumed, folder)
    assert re.findall(r"^(already|epoch .)", output, re.MULTILINE) == ["already", "epoch 2"]
    files = [folder / run / "predictions.csv" for run in ("run", "parts")]
    assert files[0].read_text() == files[1].read_text()
