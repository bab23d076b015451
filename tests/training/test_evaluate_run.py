import numpy as np
import pandas
import pytest

from dann.training import evaluate_run
from dann.training.manifest import Manifest
from dann.training.run_directory import RunDirectory


def test_regret_table_has_one_row_per_score(tmp_path):
    scores = {"entropy": [np.nan, -0.2, -0.2], "mcc": [3.0, 1.0, 2.0], "bnm": [-np.inf] * 3}
    metrics = pandas.DataFrame(scores).add_prefix("selection/").assign(accuracy=0.9)
    metrics.to_csv(tmp_path / "metrics.csv")
    curve = pandas.DataFrame({"step": [100, 200, 300], "target/accuracy": [0.6, 0.8, 0.75]})
    curve.to_csv(tmp_path / "oracle.csv")
    table = evaluate_run.tabulate_regret(tmp_path)  # without bnm, which is never finite
    assert list(table.index) == ["entropy", "mcc"]
    columns = ["step", "score", "accuracy", "regret"]
    assert table.loc["entropy", columns].tolist() == [200, -0.2, 0.8, 0.0]
    assert table.loc["mcc", columns].tolist() == [100, 3.0, 0.6, pytest.approx(0.2)]
    curve[:1].to_csv(tmp_path / "oracle.csv")
    with pytest.raises(ValueError, match="3 and 1 epochs"):
        evaluate_run.tabulate_regret(tmp_path)


@pytest.fixture
def predicted_run(tmp_path):
    """A run with 100 predictions, 70 of them of the class `yes`."""
    classes = np.where(np.arange(100) < 70, "yes", "no")
    table = {"example": np.arange(100), "class": classes, "probability": 0.9, "split": "train"}
    RunDirectory(tmp_path).write_predictions(pandas.DataFrame(table))
    return RunDirectory(tmp_path)


def test_sample_has_the_shares_of_the_predicted_classes(predicted_run):
    path = evaluate_run.write_sample(predicted_run, 20)
    table = pandas.read_csv(path, keep_default_na=False)
    assert path.name == "label_20.csv"
    assert list(table) == ["example", "split", "prediction", "label"]
    assert table["prediction"].value_counts().to_dict() == {"yes": 14, "no": 6}
    assert table["example"].is_unique
    assert ((table["example"] < 70) == (table["prediction"] == "yes")).all()
    assert set(table["label"]) == {""}
    draws = [pandas.read_csv(evaluate_run.write_sample(predicted_run, 1 + n, n)) for n in range(18)]
    assert len({table["example"][0] for table in draws}) > 10  # no fixed rows


def test_sample_replaces_no_file_and_fits_the_predictions(predicted_run):
    path = evaluate_run.write_sample(predicted_run, 5)
    path.write_text("filled")
    with pytest.raises(FileExistsError, match=r"may contain labels.*label_5\.csv"):
        evaluate_run.write_sample(predicted_run, 5)
    assert path.read_text() == "filled"
    predicted_run.discard_results()  # as overwrite=true does
    assert path.exists()


def fill(run, labels):
    """Writes labels of examples 69, 68 and so on, as another run would predict them."""
    path = run.path / "filled.csv"
    table = {"example": 69 - np.arange(len(labels)), "prediction": "other", "label": labels}
    pandas.DataFrame(table).to_csv(path, index=False, encoding="utf-8-sig")
    return path


def test_accuracy_of_a_sample_has_wilsons_interval(predicted_run):
    path = fill(predicted_run, ["yes"] * 42 + ["no "] * 8 + [""] * 3)
    estimate = evaluate_run.measure_labeled_accuracy(predicted_run, path, ("no", "yes"))
    z, n, p = 1.959964, 50, 0.84
    center = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    margin = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert estimate == pytest.approx((0.84, center - margin, center + margin, 50))
    words = "(train and test): 84.0% (95% interval 71.5% to 91.7%) of 50 labeled examples"
    assert str(estimate) == f"target accuracy {words}"
    table = predicted_run.predictions().replace({"class": {"yes": "1", "no": "2"}})
    predicted_run.write_predictions(table)
    path = fill(predicted_run, ["1.0", "2"])
    assert evaluate_run.measure_labeled_accuracy(predicted_run, path, ["1", "2"]).accuracy == 0.5
    test_rows = table.assign(split="test").replace({"class": {"1": "2", "2": "1"}})
    predicted_run.write_predictions(pandas.concat([table, test_rows]))  # same row numbers
    path = evaluate_run.write_sample(predicted_run, 200)
    pandas.read_csv(path).assign(label=1).to_csv(path, index=False)
    assert evaluate_run.measure_labeled_accuracy(predicted_run, path, ["1", "2"])[::3] == (0.5, 200)
    table = pandas.read_csv(path)
    table[table["split"] == "test"].to_csv(path, index=False)
    assert evaluate_run.measure_labeled_accuracy(predicted_run, path, ["1", "2"]).accuracy == 0.3


HEADER = b"example,prediction,label\n"


REFUSALS = {
    "unknown class": (HEADER + b"69,yes,ja\n", "among no, yes. Received: ja in"),
    "no label": (HEADER + b"69,yes,\n", "Received: none in"),
    "two labels": (HEADER + b"69,yes,no\n68,yes,no\n69,yes,yes\n", "several of 69 in"),
    "other example": (HEADER + b"-1,yes,yes\n", r"examples of .*predictions.csv. Received: -1 in"),
    "semicolons": (HEADER.replace(b",", b";"), "commas between cells. Received: the header e"),
    "image": (b"\x89PNG\r\n\x1a\n", "CSV file in UTF-8 with the columns example, split and"),
    "folder": (None, "to be a CSV file in UTF-8 .*Is a directory"),
}


@pytest.mark.parametrize(("content", "words"), REFUSALS.values(), ids=REFUSALS)
def test_wrong_labels_are_refused(content, words, predicted_run):
    path = predicted_run.path
    if content is not None:
        path = path / "filled.csv"
        path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        evaluate_run.measure_labeled_accuracy(predicted_run, path, ("no", "yes"))


def test_sample_needs_different_names(predicted_run):
    predicted_run.write_predictions(predicted_run.predictions().assign(example="a"))
    with pytest.raises(ValueError, match="Received: a for several examples"):
        evaluate_run.write_sample(predicted_run, 5)


def test_recommended_classifier_has_the_data_of_its_runs(tmp_path):
    runs = [RunDirectory(tmp_path / name) for name in ("recommended", "first", "second")]
    recommended, first, second = runs
    for number, run in enumerate(runs):
        with Manifest(tmp_path, "sweep").write(run.classifier_file) as draft:
            draft.write_text("network")
        if number:
            run.write_config({"config.yaml": "seed: 0"})
            run.write_summary({"training_data": {"source": [80, 1.5]}})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/classifier.keras").write_text("network")
    assert evaluate_run.find_data_run(first) is first
    assert evaluate_run.find_data_run(recommended).path == tmp_path / "first"
    for path in ("other", "."):
        with pytest.raises(FileNotFoundError, match="or the folder `recommended` of a sweep"):
            evaluate_run.find_data_run(RunDirectory(tmp_path / path))
    second.write_summary({"training_data": {"source": [80, 2.5]}})
    with pytest.raises(ValueError, match=r"Use one of its runs, such as run=.*first"):
        evaluate_run.find_data_run(recommended)
