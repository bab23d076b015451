"""The main job's promise, at full length."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "train.py"


@pytest.mark.slow
def test_dann_beats_source_only_on_five_seeds(tmp_path):
    """At least 10 points on average and 3 on every seed, in at most 3 minutes of training."""
    arguments = ["-m", "seed=0,1,2,3,4", "callbacks=none", "hydra.sweep.dir=sweep"]
    subprocess.run([sys.executable, str(SCRIPT), *arguments], cwd=tmp_path, check=True)
    summaries = [json.loads(path.read_text()) for path in tmp_path.glob("sweep/*/summary.json")]
    assert sorted(summary["seed"] for summary in summaries) == [0, 1, 2, 3, 4]
    gains = [s["target/accuracy"] - s["source_only/target/accuracy"] for s in summaries]
    assert np.mean(gains) >= 0.10
    assert min(gains) >= 0.03
    assert max(s["seconds"] + s["source_only/seconds"] for s in summaries) <= 180
