"""`scripts/train.py` on tables and time series of one's own."""

import csv
import json

import numpy as np
import pytest

SHORT = ["debug=fast", "compare=false", "callbacks=none", "hydra.run.dir=run"]
CSV = ["data=csv", "data.source=a.csv", "data.target=b.csv", "network=tabular"]
NPZ = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=time_series"]


@pytest.fixture
def folder(tmp_path):
    """Two tables, and two files of time series."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            rows = [[rng.normal(), "xy"[i % 2], ["good", "bad"][i % 2]] for i in range(100)]
            csv.writer(file).writerows([["size", "kind", "label"], *rows])
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(100, 20, 3)), y=np.arange(100) % 4)
    return tmp_path


@pytest.mark.parametrize(
    "arguments", [pytest.param(CSV, marks=pytest.mark.slow, id="csv"), pytest.param(NPZ, id="npz")]
)
def test_a_run_ends_with_a_summary(arguments, folder, run_here):
    result = run_here("train.py", [*SHORT, *arguments], folder)
    assert result.returncode == 0, result.stderr
    assert "a → b" in result.stdout
    summary = json.loads((folder / "run/summary.json").read_text())
    assert (summary["method"], summary["steps"]) == ("DANN", 4)
    # The tests hold 20 examples each.
    for domain in ("source", "target"):
        right = 20 * summary[f"{domain}/accuracy"]
        assert right == pytest.approx(round(right), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*CSV, "data.label=class"], "Received: ['size', 'kind', 'label']"),
        ([*NPZ, "data.target=a.csv"], "Expected an .npz file of arrays. Received: a.csv"),
        (NPZ[:2], "Missing required key: data.target"),
    ],
)
def test_a_mistake_ends_with_one_line_and_leaves_nothing(
    arguments, message, folder, run_here, check_refused
):
    before = sorted(folder.iterdir())
    check_refused(run_here("train.py", [*SHORT, *arguments], folder), message)
    assert sorted(folder.iterdir()) == before
