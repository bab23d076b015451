"""`scripts/train.py` on images, tables and series of a user."""

import json
import re
import shutil

import keras
import numpy as np
import pandas
import pytest
from PIL import Image

SHORT = ["debug=fast", "compare=false", "callbacks=none"]
FILES = {
    "npz": ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=time_series"],
    "csv": ["data=csv", "data.source=a.csv", "data.target=b.csv", "network=tabular"],
    "images": ["data=image_folder", "data.root=.", "data.source=a", "data.target=b"],
}
FILES["images"] += ["data.image_size=16", "network=cnn"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two domains as series, tables and image folders; the target also without labels."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for name in ("a", "b"):
        rows = [[*rng.normal(size=2), "xy"[i % 2], ["good", "bad"][i % 2]] for i in range(100)]
        table = pandas.DataFrame(rows, columns=["size", "width", "kind", "label"])
        table.to_csv(folder / f"{name}.csv", index=False)
        np.savez(folder / f"{name}.npz", x=rng.normal(size=(100, 20, 3)), y=np.arange(100) % 4)
        for number in range(100):
            class_folder = folder / name / ("round", "square")[number % 2]
            class_folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (18, 20, 3)).astype("uint8")
            Image.fromarray(pixels).save(class_folder / f"{number}.png")
    for name in ("plain", "new"):
        np.savez(folder / f"{name}.npz", x=np.load(folder / "b.npz")["x"])
        table.drop(columns="label").to_csv(folder / f"{name}.csv", index=False)
        (folder / name).mkdir()
        for path in folder.glob("b/*/*.png"):
            shutil.copy(path, folder / name)
    return folder


@pytest.mark.parametrize("kind", [pytest.param("npz", marks=pytest.mark.slow), "csv", "images"])
def test_unlabeled_and_new_data_are_predicted(kind, folder, run_well, run_here, check_refused):
    ending = {"npz": ".npz", "csv": ".csv", "images": ""}[kind]
    overrides = [f"data.target=plain{ending}", f"hydra.run.dir={kind}", "data.standardize=each"]
    output = run_well("train.py", [*SHORT, *FILES[kind], *overrides], folder)
    assert "source examples; the target has no labels\nAlignment: " in output
    assert f"evaluate.py run={kind} label=50\n" in output
    summary = json.loads((folder / kind / "summary.json").read_text())
    assert (summary["method"], summary["steps"]) == ("dann", 4)
    num_correct = 20 * summary["source/accuracy"]
    assert num_correct == pytest.approx(round(num_correct), abs=1e-4)
    table = pandas.read_csv(folder / kind / "predictions.csv").sort_values("example")
    assert list(table) == ["example", "class", "probability", "split"]
    assert table["split"].value_counts().to_dict() == {"train": 80, "test": 20}
    assert table["probability"].between(1 / 4, 1).all()
    classes = {"npz": range(4), "csv": ["bad", "good"], "images": ["round", "square"]}
    assert set(table["class"]) <= set(classes[kind])

    output = run_well("evaluate.py", ["run=.", f"target=../new{ending}"], folder / kind)
    new_table = pandas.read_csv(folder / kind / "predictions_new.csv").sort_values("example")
    counts = ", ".join(f"{n} as {name}" for name, n in new_table["class"].value_counts().items())
    assert f"(probe accuracy {summary['probe/accuracy']:.0%}, chance 50%)" in output
    assert f"\nPredicted 100 examples: {counts}\nWritten to predictions_new.csv\n" in output
    assert list(new_table) == ["example", "class", "probability"]
    assert list(new_table["class"]) == list(table["class"])  # the same examples
    output = run_well("evaluate.py", [f"run={kind}", f"target=b{ending}"], folder)
    assert re.search(r"accuracy \d+\.\d% of 100 examples", output)
    run_well("evaluate.py", [f"run={kind}", "label=8"], folder)
    sample = pandas.read_csv(folder / kind / "label_8.csv").assign(label=classes[kind][0])
    sample.to_csv(folder / "filled.csv", index=False)
    (folder / kind / "source_only").mkdir()
    shutil.copy(folder / kind / "predictions.csv", folder / kind / "source_only")
    output = run_well("evaluate.py", [f"run={kind}", "labels_file=filled.csv"], folder)
    assert output == output.splitlines()[0] + "\nsource only: " + output.splitlines()[0] + "\n"
    accuracy = (sample["prediction"] == classes[kind][0]).mean()
    assert f"target accuracy (train and test): {accuracy:.1%} (95% interval " in output
    (folder / kind / "standardizer.json").write_text("{}")  # the run's statistics are read
    refused = run_here("evaluate.py", [f"run={kind}", f"target=new{ending}"], folder)
    check_refused(refused, f"{kind}/standardizer.json", silent=False)


def test_sizes_follow_a_few_images(folder, tmp_path, run_well, run_here, check_refused):
    for path in folder.glob("[ab]/*/?.png"):  # the first five of each class
        copy = tmp_path / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    images = ["data=image_folder", "data.root=.", "data.source=a", "data.target=b", "network=cnn"]
    short = ["trainer.steps=2", "compare=false", "callbacks=none", "hydra.run.dir=run"]
    output = run_well("train.py", [*short, *images], tmp_path)
    assert "Image size: 18 x 20 pixels" in output
    assert "Batch size: 8, because the source has 8 examples (trainer.batch_size)" in output
    assert json.loads((tmp_path / "run/summary.json").read_text())["steps"] == 2
    run_well("evaluate.py", ["run=run", f"target={folder / 'new'}"], tmp_path)
    refused = run_here("evaluate.py", ["run=run", f"target={folder / 'new/0.png'}"], tmp_path)
    check_refused(refused, "Expected target= to be a folder of images", "0.png, a file")


def test_numbers_are_predicted_and_evaluated(folder, run_well, run_here, check_refused):
    arguments = [*SHORT, *FILES["csv"], "data.label=size", "hydra.run.dir=numbers"]
    output = run_well("train.py", arguments, folder)
    assert ": task=regression\n" in output
    assert "4 steps, test MAE after the last step\n" in output
    assert "Written to numbers: classifier.keras, predictions.csv, encoding.csv, figures/" in output
    table = pandas.read_csv(folder / "numbers/predictions.csv")
    assert list(table) == ["example", "prediction", "split"]
    sizes = pandas.read_csv(folder / "b.csv")["size"]
    is_test = table["split"] == "test"
    error = (table["prediction"] - sizes)[is_test].abs().mean()
    summary = json.loads((folder / "numbers/summary.json").read_text())
    assert summary["target/mae"] == pytest.approx(error, rel=1e-5)
    assert re.search(rf"^dann .* {error:.6g} +{summary['target/r2']:.3f} ", output, re.MULTILINE)
    output = run_well("evaluate.py", ["run=numbers"], folder)
    assert f"target: b\nmean absolute error {error:.6g}, R2 " in output
    table = pandas.read_csv(folder / "b.csv").drop(columns="size")
    table.loc[0, "width"], table.loc[1, "kind"] = np.nan, "unseen"
    table.to_csv(folder / "unlabeled.csv", index=False)
    output = run_well("evaluate.py", ["run=numbers", "target=unlabeled.csv"], folder)
    assert "target MAE: unknown (no labels)\n" in output
    inputs = np.zeros((100, 1 + 2 + 2), "float32")
    encoding = pandas.read_csv(folder / "numbers/encoding.csv")
    for position, name, category, median, mean, scale in encoding.itertuples(index=False):
        is_category = table[name] == category
        number = 0 if np.isnan(scale) else (table[name].fillna(median) - mean) / scale
        inputs[:, position] = is_category if np.isnan(scale) else number
    classifier = keras.models.load_model(folder / "numbers/classifier.keras")
    table = pandas.read_csv(folder / "numbers/predictions_unlabeled.csv")
    np.testing.assert_allclose(classifier(inputs)[:, 0], table["prediction"], atol=1e-5)
    refused = run_here("evaluate.py", ["run=numbers", "label=5"], folder)
    check_refused(refused, "Received: a regression run")


REFUSALS = {
    "data.label=size trainer.oracle_curve=true": "Received: numbers (regression)",
    "network=cnn": "network=tabular",
}


@pytest.mark.parametrize(("overrides", "words"), REFUSALS.items(), ids=REFUSALS)
def test_unsuitable_settings_print_one_line(overrides, words, folder, run_here, check_refused):
    arguments = [*SHORT, *FILES["csv"], *overrides.split(), "hydra.run.dir=refused"]
    check_refused(run_here("train.py", arguments, folder), words, silent=False)
    assert not (folder / "refused").exists()
