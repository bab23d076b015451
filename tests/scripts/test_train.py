"""`scripts/train.py` on the default data."""

import json
import re
import socket

import keras
import numpy as np
import pytest


def test_summary_and_output_contain_the_test_accuracies(tmp_path, run_well, prepared_digits):
    output = run_well("train.py", ["debug=fast", "hydra.run.dir=run"], tmp_path)
    folder = tmp_path / "run"
    summary = json.loads((folder / "summary.json").read_text())
    assert [summary[key] for key in ("method", "seed", "steps")] == ["dann", 0, 4]
    assert min(summary["seconds"], summary["source_only/seconds"]) > 0
    classifier = keras.models.load_model(folder / "classifier.keras")
    tests = {"source": prepared_digits.source_test, "target": prepared_digits.target_test}
    for domain, (images, labels) in tests.items():
        is_correct = classifier.predict(images, verbose=0).argmax(axis=1) == labels
        assert summary[f"{domain}/accuracy"] == pytest.approx(np.mean(is_correct), abs=1e-6)
    lines = [line for line in output.splitlines() if re.match(r"epoch \d/2  train a", line)]
    assert [line[:9] for line in lines] == ["epoch 1/2", "epoch 2/2"] * 2
    assert re.search(r"%  domain acc \d+%  strength 0\.\d\d  InfoMax \d\.\d\d$", lines[2])
    assert max(map(len, output.splitlines())) <= 100
    baseline, adapted = (f"{summary[f'{key}target/accuracy']:.1%}" for key in ("source_only/", ""))
    assert re.search(rf" {baseline} .*\ndann .* {adapted} .*\n\* measured .*\nGain: ", output)
    assert "\nTested on: 599 source examples; 599 target examples\nAlignment: " in output
    assert re.search(r"\nWritten to run: classifier.keras, .*\nRecommended.*\nNext: pyth", output)
    assert output.endswith("diagnose.py run=run\n      tensorboard --logdir run/tensorboard\n")


def test_baseline_has_no_regularizer(tmp_path, run_well, with_features):
    data = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp", "callbacks=none"]
    method = ["method=source_only", "regularizer=mcc", "debug=fast", "hydra.run.dir=run"]
    run_well("train.py", [*data, *method], with_features(tmp_path))
    files = [tmp_path / "run" / folder / "classifier.keras" for folder in ("", "source_only")]
    regularized, plain = (keras.models.load_model(file).get_weights()[0] for file in files)
    assert np.abs(regularized - plain).max() > 0


@pytest.mark.slow
def test_dann_beats_source_only_on_five_seeds(tmp_path, begin):
    """At least 10 points on average and 3 on every seed, in at most 3 minutes of training."""
    arguments = ["-m", "seed=0,1,2,3,4", "callbacks=none", "hydra.sweep.dir=sweep"]
    process = begin("train.py", arguments, tmp_path)
    process.communicate()
    assert process.returncode == 0
    summaries = [json.loads(path.read_text()) for path in tmp_path.glob("sweep/*/summary.json")]
    assert sorted(summary["seed"] for summary in summaries) == [0, 1, 2, 3, 4]
    gains = [s["target/accuracy"] - s["source_only/target/accuracy"] for s in summaries]
    assert np.mean(gains) >= 0.10
    assert min(gains) >= 0.03
    assert max(s["seconds"] + s["source_only/seconds"] for s in summaries) <= 180


QUICK = ["debug=fast", "schedule=constant", "optimizer.learning_rate=0.01", "compare=false"]


@pytest.mark.slow
def test_first_of_two_processes_writes_the_run(begin, tmp_path):
    pytest.importorskip("jax")

    def train(count, *overrides):
        """Returns the statuses and the outputs of several processes."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        common = [*QUICK, *overrides, "trainer.oracle_curve=true", "distribution=multi_host"]
        common += [f"distribution.coordinator={address}", f"hydra.run.dir={tmp_path / 'run'}"]
        common += [f"distribution.num_processes={count}"]
        backend = {"KERAS_BACKEND": "jax", "TMPDIR": str(tmp_path)}
        processes = [
            begin("train.py", [*common, f"distribution.process_id={i}"], tmp_path, **backend)
            for i in range(count)
        ]
        outputs = [process.communicate(timeout=300) for process in processes]
        return [process.returncode for process in processes], outputs

    statuses, outputs = train(2)
    assert statuses == [0, 0], outputs
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 4
    assert {"selection/info_max", "target/accuracy"} <= summary.keys()
    assert "Written to" in outputs[0][0]
    assert "Written to" not in outputs[1][0]
    assert list(tmp_path.glob("tmp*/checkpoints")) == []  # of the second process
    assert (tmp_path / "run" / "figures" / "features.png").is_file()
    for count, steps in ((1, 6), (2, 8)):
        statuses, outputs = train(count, f"trainer.steps={steps}", "resume=true")
        assert not any(statuses), outputs
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == steps
        assert len((tmp_path / "run" / "oracle.csv").read_text().splitlines()) == steps // 2 + 1
