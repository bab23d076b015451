"""`scripts/reproduce.py` with the real training script and a short training."""

import json


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
    page = (folder / "results.md").read_text()
    assert "|**`digits_to_photos`**|" in page
    assert "|dann|" in page
    again = run_well("reproduce.py", short, tmp_path)
    assert again.startswith("digits_to_photos: mean ± standard deviation over seeds; gain: ")
    assert (folder / "digits_to_photos/recommended/classifier.keras").is_file()
    assert again.endswith(f"Written to {folder}/results.csv and {folder}/results.md\n")
    assert (folder / "results.csv").read_text().splitlines() == rows
