"""`scripts/train.py` on images, tables and series of a user."""

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
    """Two domains as series, tables and image folders; the target also without labels."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        rows = [[rng.normal(), "xy"[i % 2], ["good", "bad"][i % 2]] for i in range(100)]
        table = pandas.DataFrame(rows, columns=["size", "kind", "label"])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(100, 20, 3)), y=np.arange(100) % 4)
        for number in range(100):
            class_folder = tmp_path / name / ("round", "square")[number % 2]
            class_folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (18, 20, 3)).astype("uint8")
            Image.fromarray(pixels).save(class_folder / f"{number}.png")
    for name in ("plain", "new"):
        np.savez(tmp_path / f"{name}.npz", x=np.load(tmp_path / "b.npz")["x"])
        table.drop(columns="label").to_csv(tmp_path / f"{name}.csv", index=False)
        (tmp_path / name).mkdir()
        for path in tmp_path.glob("b/*/*.png"):
            shutil.copy(path, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("kind", FILES)
def test_run_on_files_writes_a_summary(kind, folder, run_well):
    run_well("train.py", [*SHORT, *FILES[kind]], folder)
    summary = json.loads((folder / "run/summary.json").read_text())
    assert (summary["method"], summary["steps"]) == ("dann", 4)
    for domain in ("source", "target"):  # 20 test examples each
        num_correct = 20 * summary[f"{domain}/accuracy"]
        assert num_correct == pytest.approx(round(num_correct), abs=1e-4)


@pytest.mark.parametrize("kind", FILES)
def test_unlabeled_targets_and_new_data_are_predicted(
    kind, folder, run_well, run_here, check_refused
):
    ending = {"npz": ".npz", "csv": ".csv", "images": ""}[kind]
    plain = f"data.target=plain{ending}", "data.standardize=each"
    output = run_well("train.py", [*SHORT, *FILES[kind], *plain], folder)
    assert "target accuracy: unknown (no labels)\nselection/" in output
    table = pandas.read_csv(folder / "run/predictions.csv").sort_values("example")
    assert list(table) == ["example", "class", "probability", "split"]
    assert table["split"].value_counts().to_dict() == {"train": 80, "test": 20}
    assert table["probability"].between(1 / 4, 1).all()
    classes = {"npz": range(4), "csv": ["bad", "good"], "images": ["round", "square"]}
    assert set(table["class"]) <= set(classes[kind])

    run_well("evaluate.py", ["run=run", f"target=new{ending}"], folder)
    new_table = pandas.read_csv(folder / "run/predictions_new.csv").sort_values("example")
    assert list(new_table["class"]) == list(table["class"])  # the same examples
    output = run_well("evaluate.py", ["run=run", f"target=b{ending}"], folder)
    assert re.search(r"accuracy \d+\.\d% of 100 examples", output)
    (folder / "run/standardizer.json").write_text("{}")  # the run's statistics are read
    refused = run_here("evaluate.py", ["run=run", f"target=new{ending}"], folder)
    check_refused(refused, "run/standardizer.json", silent=False)


def test_image_size_and_batch_size_follow_a_few_images(folder, run_well):
    for path in folder.glob("[ab]/*/*.png"):
        if int(path.stem) >= 24:
            path.unlink()
    images = ["data=image_folder", "data.root=.", "data.source=a", "data.target=b", "network=cnn"]
    short = ["trainer.steps=2", "compare=false", "callbacks=none", "hydra.run.dir=run"]
    output = run_well("train.py", [*short, *images], folder)
    assert "Image size: 18 x 20 pixels" in output
    assert "Batch size: 19, because the source has 19 examples (trainer.batch_size)" in output
    assert json.loads((folder / "run/summary.json").read_text())["steps"] == 2
    run_well("evaluate.py", ["run=run", "target=new"], folder)


@pytest.mark.parametrize(
    ("kind", "overrides", "words"),
    [
        ("csv", ["data.label=class"], "['size', 'kind', 'label']"),
        ("csv", ["network=cnn"], "network=tabular"),
        ("npz", ["data.target=a.csv"], "a.csv"),
        ("npz", ["data.target=nothing.npz"], "nothing.npz"),
        ("images", ["data.target=nothing"], "nothing"),
        ("images", ["data.source=broken", "data.target=a"], "broken/round/0.png"),
    ],
)
def test_invalid_data_prints_one_line(kind, overrides, words, folder, run_here, check_refused):
    if kind == "images":
        (folder / "a").rename(folder / "broken")
        (folder / "broken/round/0.png").write_text("no image")
        (folder / "b").rename(folder / "a")
    result = run_here("train.py", [*SHORT, *FILES[kind], *overrides], folder)
    check_refused(result, words, silent=False)
    assert not (folder / "run").exists()
