"""`scripts/reproduce.py` with the real training script, cut short."""

import json

FILES = {"source": "a", "target": "b"}


def test_experiments_become_a_table_and_are_not_run_twice(tmp_path, run_here, with_features):
    tmp_path = tmp_path / "Jörg, (his runs)"
    tmp_path.mkdir()
    with_features(tmp_path)
    overrides = ["data=npz", *(f"data.{d}={f}.npz" for d, f in FILES.items())]
    overrides += ["network=mlp", "augmentation=none", "debug=fast", "callbacks=none"]
    short = [
        "experiments=[digits_to_photos]",
        "methods=[dann]",
        "seeds=[0]",
        f"overrides={json.dumps(overrides)}",
        f'runs_dir="{tmp_path}/runs/reproduce"',
        f'paths.cache_dir="{tmp_path}/cache"',
    ]
    result = run_here("reproduce.py", short, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    folder = tmp_path / "runs/reproduce"
    rows = (folder / "results.csv").read_text().splitlines()
    assert sum(",target/accuracy," in row for row in rows) == 1
    page = (folder / "results.md").read_text()
    assert "## digits_to_photos\n\na → b\n" in page
    assert "| dann | 0 | " in page
    again = run_here("reproduce.py", short, tmp_path)
    assert again.returncode == 0
    assert again.stdout == f"Written to {folder}/results.csv and {folder}/results.md\n"
    assert (folder / "results.csv").read_text().splitlines() == rows
