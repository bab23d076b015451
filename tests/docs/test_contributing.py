"""Checks CONTRIBUTING.md: its examples work, and the files that it names exist."""

import re
import subprocess
import sys

import pages
import pytest

from dann.selection.scores import SCORES

PAGE = (pages.ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = [code for _, code in pages.blocks(PAGE, "python")]
PROGRAM = """
import numpy as np
from scipy.io import savemat

rng = np.random.default_rng(0)
logits = rng.normal(size=(20, 3))
probabilities = np.sort(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
expected = np.mean(probabilities[:, 2] - probabilities[:, 1])
np.testing.assert_allclose(SCORES["margin"](Outputs(target_logits=logits)), expected)

labels = np.arange(90, dtype="uint8")[:, None] % 3 + 1
for name in ("amazon", "webcam"):
    savemat(f"{name}.mat", {"fts": rng.normal(size=(90, 5)), "labels": labels})
features = loadmat("amazon.mat")["fts"].astype("float32")
rows = {row.tobytes(): label - 1 for row, [label] in zip(features, labels)}
domains = mat("amazon.mat", "webcam.mat")
assert (domains.num_classes, domains.input_shape) == (3, (5,))
expected = [rows[np.asarray(row, "float32").tobytes()] for row in domains.source_train[0]]
np.testing.assert_array_equal(domains.source_train[1], expected)
"""


def test_examples_compute_their_formulas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # monkeypatch removes the registrations of the examples afterwards.
    for registry in (SCORES, SCORES.facts):
        monkeypatch.setitem(registry, "margin", None)
    names = {}
    for program in [*EXAMPLES, PROGRAM]:
        exec(program, names)


def test_paths_on_page_exist():
    paths = re.findall(r"`((?:dann|conf|tests|docs|benchmarks|scripts)/[\w/.]*)`", PAGE)
    assert len(paths) >= 40
    assert [path for path in paths if not (pages.ROOT / path).exists()] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_passes_ruff(example):
    ruff = [sys.executable, "-m", "ruff", "check", "--stdin-filename", "dann/example.py", "-"]
    result = subprocess.run(ruff, cwd=pages.ROOT, input=example, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
