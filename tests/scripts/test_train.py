"""`scripts/train.py` on the default data."""

import json
import pathlib
import re

import keras
import numpy as np
import pytest

CONF = pathlib.Path(__file__).parents[2] / "conf"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, run_well, prepared_digits):
    """The output and the directory of a short default run."""
    folder = tmp_path_factory.mktemp("finished")
    return run_well("train.py", ["debug=fast", "hydra.run.dir=run"], folder), folder / "run"


def test_summary_and_output_contain_the_test_accuracies(finished, prepared_digits):
    output, folder = finished
    summary = json.loads((folder / "summary.json").read_text())
    assert [summary[key] for key in ("method", "seed", "steps")] == ["dann", 0, 4]
    assert min(summary["seconds"], summary["source_only/seconds"]) > 0
    classifier = keras.models.load_model(folder / "classifier.keras")
    tests = {"source": prepared_digits.source_test, "target": prepared_digits.target_test}
    for domain, (images, labels) in tests.items():
        is_correct = classifier.predict(images, verbose=0).argmax(axis=1) == labels
        assert summary[f"{domain}/accuracy"] == pytest.approx(np.mean(is_correct), abs=1e-6)
    lines = [line for line in output.splitlines() if re.match(r"epoch \d/2  source ", line)]
    assert [line[:9] for line in lines] == ["epoch 1/2", "epoch 2/2"] * 2
    assert re.search(r"%  domain acc 0\.\d\d  strength 0\.\d\d  InfoMax \d\.\d\d$", lines[2])
    assert max(map(len, lines)) <= 100
    baseline, adapted = (f"{summary[f'{key}target/accuracy']:.1%}" for key in ("source_only/", ""))
    assert "target (oracle)" in output
    assert f" {baseline} " in output
    assert f"target accuracy: {adapted} (of 599 test examples)\n" in output
    assert "Classifier: run/classifier.keras\nNext: python " in output
    assert output.endswith("diagnose.py run=run\n      tensorboard --logdir run/tensorboard\n")


def test_help_shows_the_groups_of_a_script(tmp_path, run_well):
    output = run_well("train.py", ["--help"], tmp_path)
    groups = (path.name for path in CONF.iterdir() if path.is_dir())
    assert [group for group in groups if f"{group}: " not in output] == []
    assert "method: " not in run_well("export.py", ["--help"], tmp_path)


@pytest.mark.slow
def test_dann_beats_source_only_on_five_seeds(tmp_path, run_apart):
    """At least 10 points on average and 3 on every seed, in at most 3 minutes of training."""
    arguments = ["-m", "seed=0,1,2,3,4", "callbacks=none", "hydra.sweep.dir=sweep"]
    assert run_apart("train.py", arguments, tmp_path).returncode == 0
    summaries = [json.loads(path.read_text()) for path in tmp_path.glob("sweep/*/summary.json")]
    assert sorted(summary["seed"] for summary in summaries) == [0, 1, 2, 3, 4]
    gains = [s["target/accuracy"] - s["source_only/target/accuracy"] for s in summaries]
    assert np.mean(gains) >= 0.10
    assert min(gains) >= 0.03
    assert max(s["seconds"] + s["source_only/seconds"] for s in summaries) <= 180
