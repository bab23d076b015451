"""CONTRIBUTING.md: its examples compute what they say, and the files that it names are there."""

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
chances = np.sort(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
wanted = np.mean(chances[:, 2] - chances[:, 1])
np.testing.assert_allclose(SCORES["margin"](Outputs(target_logits=logits)), wanted)

labels = np.arange(90, dtype="uint8")[:, None] % 3 + 1
for name in ("amazon", "webcam"):
    savemat(f"{name}.mat", {"fts": rng.normal(size=(90, 5)), "labels": labels})
features = loadmat("amazon.mat")["fts"].astype("float32")
rows = {row.tobytes(): label - 1 for row, [label] in zip(features, labels)}
domains = mat("amazon.mat", "webcam.mat")
assert (domains.num_classes, domains.input_shape) == (3, (5,))
found = [rows[np.asarray(row, "float32").tobytes()] for row in domains.source_train[0]]
np.testing.assert_array_equal(domains.source_train[1], found)
"""


def test_the_examples_compute_their_formulas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The examples register what they define; this takes it out again.
    for registry in (SCORES, SCORES.facts):
        monkeypatch.setitem(registry, "margin", None)
    names = {}
    for program in [*EXAMPLES, PROGRAM]:
        exec(program, names)


def test_the_page_tells_of_places_that_exist():
    places = re.findall(r"`((?:dann|conf|tests|docs|benchmarks|scripts)/[\w/.]*)`", PAGE)
    assert len(places) >= 40
    assert [place for place in places if not (pages.ROOT / place).exists()] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_passes_ruff(example):
    ruff = [sys.executable, "-m", "ruff", "check", "--stdin-filename", "dann/example.py", "-"]
    found = subprocess.run(ruff, cwd=pages.ROOT, input=example, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
