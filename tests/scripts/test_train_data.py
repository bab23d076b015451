"""`scripts/train.py` on a user's own images, tables and series, and a second stage."""

import json
import re
import shutil

import numpy as np
import pandas
import pytest
from PIL import Image

SHORT = ["debug=fast", "compare=false", "callbacks=none", "hydra.run.dir=run"]
FILES = {
    "npz": ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=time_series"],
    "csv": ["data=csv", "data.source=a.csv", "data.target=b.csv", "network=tabular"],
    "images": ["data=image_folder", "data.root=.", "data.source=a", "data.target=b"],
}
FILES["images"] += ["data.image_size=16", "network=cnn"]


@pytest.fixture
def folder(tmp_path):
    """Two domains as series, tables and folders of images; the second twice without its labels."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        rows = [[rng.normal(), "xy"[i % 2], ["good", "bad"][i % 2]] for i in range(100)]
        table = pandas.DataFrame(rows, columns=["size", "kind", "label"])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(100, 20, 3)), y=np.arange(100) % 4)
        for number in range(100):
            place = tmp_path / name / ("round", "square")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (18, 20, 3)).astype("uint8")
            Image.fromarray(pixels).save(place / f"{number}.png")
    for name in ("plain", "new"):
        np.savez(tmp_path / f"{name}.npz", x=np.load(tmp_path / "b.npz")["x"])
        table.drop(columns="label").to_csv(tmp_path / f"{name}.csv", index=False)
        (tmp_path / name).mkdir()
        for path in tmp_path.glob("b/*/*.png"):
            shutil.copy(path, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("kind", FILES)
def test_a_run_on_files_of_ones_own_ends_with_a_summary(kind, folder, run_well):
    run_well("train.py", [*SHORT, *FILES[kind]], folder)
    summary = json.loads((folder / "run/summary.json").read_text())
    assert (summary["method"], summary["steps"]) == ("dann", 4)
    for domain in ("source", "target"):  # the tests hold 20 examples each
        right = 20 * summary[f"{domain}/accuracy"]
        assert right == pytest.approx(round(right), abs=1e-4)


@pytest.mark.parametrize("kind", FILES)
def test_a_target_without_labels_is_predicted_and_so_is_new_data(kind, folder, run_well):
    ending = {"npz": ".npz", "csv": ".csv", "images": ""}[kind]
    told = run_well("train.py", [*SHORT, *FILES[kind], f"data.target=plain{ending}"], folder)
    assert "target accuracy: unknown (no labels)\nselection/" in told
    own = pandas.read_csv(folder / "run/predictions.csv").sort_values("example")
    assert list(own) == ["example", "class", "probability", "split"]
    assert own["split"].value_counts().to_dict() == {"train": 80, "test": 20}
    assert own["probability"].between(1 / 4, 1).all()
    classes = {"npz": range(4), "csv": ["bad", "good"], "images": ["round", "square"]}
    assert set(own["class"]) <= set(classes[kind])

    run_well("evaluate.py", ["run=run", f"target=new{ending}"], folder)
    found = pandas.read_csv(folder / "run/predictions_new.csv").sort_values("example")
    assert list(found["class"]) == list(own["class"])  # the same examples, so scaled alike
    told = run_well("evaluate.py", ["run=run", f"target=b{ending}"], folder)
    assert re.search(r"accuracy \d+\.\d% of 100 examples", told)


@pytest.mark.parametrize(
    ("kind", "wrong", "told"),
    [
        ("csv", ["data.label=class"], "['size', 'kind', 'label']"),
        ("csv", ["network=cnn"], "network=tabular"),
        ("npz", ["data.target=a.csv"], "a.csv"),
        ("npz", ["data.target=nothing.npz"], "nothing.npz"),
        ("images", ["data.target=nothing"], "nothing"),
        ("images", ["data.source=broken", "data.target=a"], "broken/round/0.png"),
    ],
)
def test_a_mistake_ends_with_one_line(kind, wrong, told, folder, run_here, check_refused):
    if kind == "images":
        (folder / "a").rename(folder / "broken")
        (folder / "broken/round/0.png").write_text("no image")
        (folder / "b").rename(folder / "a")
    result = run_here("train.py", [*SHORT, *FILES[kind], *wrong], folder)
    check_refused(result, told, silent=False)
    assert not (folder / "run").exists()
