"""`scripts/reproduce.py` with the real training script, cut short."""

SHORT = [
    "experiments=[recipe]",
    "methods=[dann]",
    "seeds=[0]",
    'overrides=["data=digits_to_photos","network=cnn","debug=fast","callbacks=none"]',
]


def test_experiments_become_a_table_and_are_not_run_twice(tmp_path, run_here):
    result = run_here("reproduce.py", SHORT, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    rows = (tmp_path / "docs/results.csv").read_text().splitlines()
    assert len(rows) == 2
    page = (tmp_path / "docs/results.md").read_text()
    assert "## digits on black → digits over photos" in page
    assert "| DANN | " in page
    again = run_here("reproduce.py", SHORT, tmp_path)
    assert again.returncode == 0
    assert again.stdout == "Written to docs/results.csv and docs/results.md\n"
    assert (tmp_path / "docs/results.csv").read_text().splitlines() == rows


def test_a_wrong_experiment_is_told_in_one_line(tmp_path, run_here, check_refused):
    check_refused(run_here("reproduce.py", ["experiments=[nothing]"], tmp_path), "nothing")
    assert list(tmp_path.iterdir()) == []
