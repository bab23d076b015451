"""The worked examples of CONTRIBUTING.md, added to a copy of the package as they stand."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from scipy.io import savemat

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def examples():
    """The code blocks by the file that the title of each names."""
    blocks = re.findall(r"^```(?:python|yaml)(.*)\n((?:.*\n)*?)```$", PAGE, flags=re.MULTILINE)
    return {title.removeprefix(' title="').removesuffix('"'): code for title, code in blocks}


EXAMPLES = examples()

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the package with all examples in it, and two files as Office-Caltech has them."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("dann", "benchmarks", "conf", "docs", "scripts", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, tree)
    for path, code in EXAMPLES.items():
        (tree / path).write_text(code)  # a block without a title has no file, which fails
    with (tree / "dann/data/__init__.py").open("a") as room:
        room.write("from dann.data.mat import mat\n")
    rng, labels = np.random.default_rng(0), np.arange(90, dtype="uint8")[:, None] % 3 + 1
    for name in ("amazon", "webcam"):
        savemat(tree / f"{name}.mat", {"fts": rng.normal(size=(90, 5)), "labels": labels})
    return tree


def run(tree, *command):
    """Runs Python in the copy; returns what it printed."""
    path = f"{tree}{os.pathsep}{tree / 'tests'}"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_every_section_that_adds_something_has_an_example():
    sections = PAGE.split("\n## Adding ")[1:]
    assert len(sections) >= 8
    assert [section for section in sections if ' title="' not in section] == []


def test_the_page_tells_of_places_that_exist():
    table = PAGE.split("### Where is what")[1].split("\n## ")[0]
    places = re.findall(r"`(dann/[\w/]+\.py)`(?: \(`(\w+)`\))?", table)
    assert len(places) >= 15
    for path, name in places:
        assert f"def {name}" in (ROOT / path).read_text() if name else (ROOT / path).is_file()


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_takes_at_most_25_lines_of_code(path):
    assert len([line for line in EXAMPLES[path].splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.endswith(".py")])
@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_an_example_passes_ruff_where_it_is_to_be_put(path, command):
    ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
    found = subprocess.run(ruff, cwd=ROOT, input=EXAMPLES[path], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


SET_UP = """
import dann, keras, numpy as np
entry = keras.Input((4,))
backbone = keras.Model(entry, keras.layers.Dense(5, use_bias=False)(entry))

def examples(count):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(count, 4)) for name in ("source", "target")}

def lengths(pair):
    return [np.linalg.norm(x @ np.array(backbone.weights[0]), axis=1) for x in pair.values()]
"""

METHOD = """
from dann.adaptation import METHODS, CORAL
pair = examples(9)
model = METHODS["coral"](backbone, num_classes=3, weight=2.0)
assert type(model) is CORAL is dann.CORAL
weights = np.array(backbone.weights[0], "float64")
model.compile(keras.optimizers.SGD(0.1))
logs = model.train_on_batch(pair, np.arange(9) % 3, return_dict=True)
source, target = (np.cov(pair[name] @ weights, rowvar=False) for name in pair)
np.testing.assert_allclose(logs["coral/loss"], 2 * ((source - target) ** 2).sum() / 100, rtol=1e-5)
np.testing.assert_allclose(logs["loss"], logs["coral/loss"] + logs["label/loss"], rtol=1e-6)
model.save("coral.keras")
assert keras.models.load_model("coral.keras", safe_mode=True).weight == 2.0
"""

REGULARIZER = """
pair = examples(9)
model = dann.DANN(backbone, num_classes=3, regularizers=[dann.FeatureNorm(radius=2.0)])
expected = sum(np.mean((length - 2) ** 2) for length in lengths(pair))
model.compile(keras.optimizers.SGD(0.1))
logs = model.train_on_batch(pair, np.arange(9) % 3, return_dict=True)
np.testing.assert_allclose(logs["afn/loss"], expected, rtol=1e-5)
model.save("afn.keras")
assert keras.models.load_model("afn.keras", safe_mode=True).regularizers[0].radius == 2.0
"""

ESTIMATOR = """
from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import ArcTan
from dann.layers import BinaryDense
x = np.array([-np.inf, -2.0, -0.5, 0.0, 1.0, np.inf, np.nan], "float32")
expected = np.where(np.isfinite(x), 2 / (1 + (np.pi * x) ** 2), 0)
for way in ("override", "stop_gradient"):
    signs = binary_sign(x, way=way, estimator="arctan")
    np.testing.assert_array_equal(signs, [-1, -1, -1, 1, 1, 1, np.nan])
    (slope,) = gradients(lambda x: binary_sign(x, way=way, estimator="arctan"), [x])
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
model = keras.Sequential([keras.Input((3,)), BinaryDense(2, kernel_estimator=ArcTan())])
model.save("arctan.keras")
again = keras.models.load_model("arctan.keras", safe_mode=True)
assert again.layers[0].kernel_estimators == [ArcTan()]
"""

DIAGNOSTIC = """
pair = examples(64)
model = dann.DANN(backbone, num_classes=3)
model.compile("adam")
source, target = (length.mean() for length in lengths(pair))
found = dann.diagnostics.check(model, (pair, np.arange(64) % 3)).measurements
np.testing.assert_allclose(found["norm/ratio"], target / source, rtol=1e-5)
"""

READER = """
from scipy.io import loadmat
from dann.data import mat
features, labels = (loadmat("amazon.mat")[name] for name in ("fts", "labels"))
rows = {row.tobytes(): label - 1 for row, [label] in zip(features.astype("float32"), labels)}
domains = mat("amazon.mat", "webcam.mat")
assert (domains.num_classes, domains.input_shape) == (3, (5,))
found = [rows[row.tobytes()] for row in domains.source_train[0]]
np.testing.assert_array_equal(domains.source_train[1], found)
"""

SCORE = """
from support.checkpoints import TARGET, checkpoint, logits
from dann.selection import SCORES
values = np.exp(logits(20, TARGET).astype("float64"))
chances = np.sort(values / values.sum(axis=1, keepdims=True))
wanted = np.mean(chances[:, -1] - chances[:, -2])
np.testing.assert_allclose(SCORES["margin"](checkpoint(20), target=TARGET), wanted, rtol=1e-5)
"""


def test_every_example_computes_its_formula(tree):
    """In one process, whose start takes longer than the examples do."""
    programs = [SET_UP, METHOD, REGULARIZER, ESTIMATOR, DIAGNOSTIC, READER, SCORE]
    run(tree, "-c", "\n".join(programs))


def test_the_examples_are_choices_of_the_script(tree):
    choices = ["data=mat", "method=coral", "method.weight=0.5", "regularizer=afn", "selection=all"]
    files = ["data.source=amazon.mat", "data.target=webcam.mat", "network=mlp", "compare=false"]
    run(tree, "scripts/train.py", "hydra.run.dir=run", "debug=fast", *choices, *files)
    assert "coral/loss" in (tree / "run/metrics.csv").read_text()
    assert 0 <= json.loads((tree / "run/summary.json").read_text())["selection/margin"] <= 1


def test_the_examples_join_the_tests_of_their_kind_and_of_the_configs(tree):
    names = ("coral", "afn", "strided")
    written = run(tree, "docs/tables.py")
    for file in ("docs/methods.md", "dann/adaptation/__init__.py"):
        assert file in written
    files = ["networks/test_networks", "adaptation/test_every_method", "conf/test_choices"]
    files += ["docs/test_generated_tables"]
    tests = [f"tests/{file}.py" for file in files]
    choices = "tests/config/test_config.py::test_every_choice_composes_and_builds_what_it_names"
    named = " or ".join([*names, "registered", "exported", "registries_give", "type_checkers"])
    found = run(tree, "-m", "pytest", "-v", "-k", named, "-m", "not slow", *tests, choices)
    shared = ("network=strided", "everything_registered_is_a_choice", r"dann/adaptation\]")
    for test in (*names, *shared):
        assert re.search(rf"{test}.*PASSED|PASSED.*{test}", found), found
