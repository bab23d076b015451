"""The second stage by `scripts/train.py`, on what a first run has left."""

import json

import keras
import numpy as np
import pytest

DATA = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp"]
SHORT = [*DATA, "debug=fast", "compare=false", "callbacks=none", "selection=none"]


@pytest.fixture(scope="module")
def first(tmp_path_factory, run_here, with_features):
    """The folder with a finished run `first` on two files of features."""
    folder = with_features(tmp_path_factory.mktemp("stages"))
    result = run_here("train.py", [*SHORT, "hydra.run.dir=first"], folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_the_second_stage_continues_the_run_that_it_names(first, run_here):
    arguments = ["method=dirt_t", "method.teacher=first", "hydra.run.dir=second"]
    # A rate of 0 leaves the weights where they start.
    still = ["optimizer=adam", "optimizer.learning_rate=0.0"]
    result = run_here("train.py", [*SHORT, *arguments, *still], first)
    assert result.returncode == 0, result.stderr
    assert json.loads((first / "second/summary.json").read_text())["method"] == "DIRTT"
    trained, refined = (
        keras.models.load_model(first / run / "classifier.keras") for run in ("first", "second")
    )
    for old, new in zip(trained.trainable_weights, refined.trainable_weights, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing required key: method.teacher"),
        (["method.teacher=nothing"], "nothing/classifier.keras"),
        (["method.teacher=first/summary.json"], "first/summary.json"),
        (["method.teacher=first", "network.backbone.hidden_units=[7]"], "weights of the shapes"),
    ],
)
def test_an_unusable_teacher_is_reported_in_one_line(
    arguments, message, first, run_here, check_refused
):
    before = sorted(first.iterdir())
    arguments = ["method=dirt_t", *SHORT, *arguments, "hydra.run.dir=other"]
    check_refused(run_here("train.py", arguments, first), message)
    assert sorted(first.iterdir()) == before
