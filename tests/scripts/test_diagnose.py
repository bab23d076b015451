"""`scripts/diagnose.py` on a short run, and on directories that are none."""

import csv
import json

import pytest

SHORT = [
    "debug=fast",
    "compare=false",
    "selection=none",
    "callbacks=diagnostics",
    "hydra.run.dir=run",
    "network=tabular",
    "data=csv",
    "data.source=a.csv",
    "data.target=b.csv",
]
FEW = ["diagnostics=[certificate,winning,bounds,conflict,jacobians]", "samples=40"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_here):
    """A folder with two tables and a run on them."""
    folder = tmp_path_factory.mktemp("diagnose")
    for name, shift in (("a", 0.0), ("b", 1.0)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = [[shift + i % 7, (i * i) % 5, ["good", "bad"][i % 2]] for i in range(100)]
            csv.writer(file).writerows([["size", "weight", "label"], *rows])
    result = run_here("train.py", SHORT, folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_a_run_is_measured_reported_and_shown(folder, run_here):
    result = run_here("diagnose.py", ["run=run", *FEW], folder)
    assert result.returncode == 0, result.stderr
    found = json.loads((folder / "run/diagnosis.json").read_text())
    assert f"verdict: {found['verdict']}\n  {found['reasons'][0]}\n" in result.stdout
    assert result.stdout.endswith("Written to run/report.html\n")
    assert (found["about"]["method"], found["about"]["step"]) == ("DANN", 4)
    assert found["about"]["examples of each domain"] == 40
    assert found["left_out"] == {}
    # The schedule's strength at its fourth step, as the checkpoint has it.
    numbers = found["measurements"]
    assert numbers["reversal/ratio"] == pytest.approx(numbers["reversal/strength"], rel=1e-3)
    assert 0.2 < numbers["reversal/strength"] < 0.3
    report = (folder / "run/report.html").read_text()
    assert f" {found['verdict'].capitalize()}</h1>" in report
    figures = {path.name for path in (folder / "run/figures").glob("diagnosis_*.svg")}
    assert len(figures) == report.count("<img ") == 3


def test_the_callback_puts_its_numbers_into_the_table_of_the_run(folder):
    with (folder / "run/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    assert all(
        float(row["diagnostics/reversal/cosine"]) == pytest.approx(-1, abs=1e-4) for row in rows
    )
    assert all(-1 <= float(row["diagnostics/conflict/cosine"]) <= 1 for row in rows)
    assert list((folder / "run/tensorboard/diagnostics").glob("events.*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run=nowhere"], "no nowhere/"),
        (["run=empty"], "no empty/"),
        (["run=broken"], "Received: broken/checkpoints/last.keras, which"),
        (["run=run", "diagnostics=[gain]"], "Received: diagnostics=['gain']"),
    ],
)
def test_a_bad_directory_or_setting_is_told(arguments, message, folder, run_here, check_refused):
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "broken/checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "broken/checkpoints/last.keras").write_text("no archive")
    check_refused(run_here("diagnose.py", arguments, folder), message, silent=False)
