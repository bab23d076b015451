"""`scripts/reproduce.py` with the real training script, cut short."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
SHORT = [
    "experiments=[recipe]",
    "methods=[source_only,dann]",
    "seeds=[0]",
    'overrides=["data=digits_to_photos","network=cnn","debug=fast","callbacks=none"]',
]


def reproduce(arguments, folder):
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/reproduce.py"), *arguments],
        cwd=folder,
        env={**os.environ, "DANN_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
    )


def test_experiments_become_a_table_and_are_not_run_twice(tmp_path):
    result = reproduce(SHORT, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    rows = (tmp_path / "docs/results.csv").read_text().splitlines()
    assert len(rows) == 3
    page = (tmp_path / "docs/results.md").read_text()
    assert "## digits on black → digits over photos" in page
    assert "| DANN | " in page
    again = reproduce(SHORT, tmp_path)
    assert again.returncode == 0
    assert again.stdout == "Written to docs/results.csv and docs/results.md\n"
    assert (tmp_path / "docs/results.csv").read_text().splitlines() == rows


def test_a_wrong_experiment_is_told_in_one_line(tmp_path):
    result = reproduce(["experiments=[nothing]"], tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "nothing" in result.stderr
    assert list(tmp_path.iterdir()) == []
