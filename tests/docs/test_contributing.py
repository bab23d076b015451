"""The worked examples of CONTRIBUTING.md, added to a copy of the package as they stand."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

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
    """A copy of the package, the configs and the scripts with all examples in it."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("dann", "conf", "scripts", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tree)
    for path, code in EXAMPLES.items():
        (tree / path).write_text(code)  # a block without a title has no file, which fails
    return tree


def run(tree, *command):
    """Runs Python in the copy; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_every_section_that_adds_something_has_an_example():
    sections = PAGE.split("\n## Adding ")[1:]
    assert len(sections) >= 8
    assert [section for section in sections if ' title="' not in section] == []


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_takes_at_most_25_lines_of_code(path):
    assert len([line for line in EXAMPLES[path].splitlines() if line.strip()]) <= 25


METHOD = """
import dann, keras, numpy as np
from dann.adaptation import METHODS, CORAL
rng = np.random.default_rng(0)
pair = {name: rng.normal(size=(9, 4)) for name in ("source", "target")}
entry = keras.Input((4,))
backbone = keras.Model(entry, keras.layers.Dense(5, use_bias=False)(entry))
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
import dann, keras, numpy as np
rng = np.random.default_rng(0)
pair = {name: rng.normal(size=(9, 4)) for name in ("source", "target")}
entry = keras.Input((4,))
backbone = keras.Model(entry, keras.layers.Dense(5, use_bias=False)(entry))
model = dann.DANN(backbone, num_classes=3, regularizers=[dann.FeatureNorm(radius=2.0)])
lengths = [np.linalg.norm(pair[name] @ np.array(backbone.weights[0]), axis=1) for name in pair]
model.compile(keras.optimizers.SGD(0.1))
logs = model.train_on_batch(pair, np.arange(9) % 3, return_dict=True)
expected = sum(np.mean((length - 2) ** 2) for length in lengths)
np.testing.assert_allclose(logs["afn/loss"], expected, rtol=1e-5)
model.save("afn.keras")
assert keras.models.load_model("afn.keras", safe_mode=True).regularizers[0].radius == 2.0
"""

ESTIMATOR = """
import keras, numpy as np
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
import dann, keras, numpy as np
rng = np.random.default_rng(0)
pair = {name: rng.normal(size=(64, 4)) for name in ("source", "target")}
entry = keras.Input((4,))
backbone = keras.Model(entry, keras.layers.Dense(5, use_bias=False)(entry))
model = dann.DANN(backbone, num_classes=3)
model.compile("adam")
lengths = [np.linalg.norm(pair[name] @ np.array(backbone.weights[0]), axis=1) for name in pair]
found = dann.diagnostics.check(model, (pair, np.arange(64) % 3)).measurements
wanted = lengths[1].mean() / lengths[0].mean()
np.testing.assert_allclose(found["norm/ratio"], wanted, rtol=1e-5)
"""


@pytest.mark.parametrize(
    "program",
    [METHOD, REGULARIZER, ESTIMATOR, DIAGNOSTIC],
    ids=["method", "regularizer", "estimator", "diagnostic"],
)
def test_an_example_computes_its_formula(tree, program):
    run(tree, "-c", program)


def test_the_examples_are_choices_of_the_script(tree):
    choices = ["method=coral", "regularizer=afn", "method.weight=0.5", "network=strided"]
    short = ["trainer.steps=2", "trainer.steps_per_epoch=2", "compare=false", "selection=none"]
    run(tree, "scripts/train.py", "hydra.run.dir=run", "debug=fast", *choices, *short)
    assert "coral/loss" in (tree / "run/metrics.csv").read_text()


def test_the_network_joins_the_tests_of_every_network(tree):
    found = run(
        tree, "-m", "pytest", "-q", "-k", "strided or exported", "tests/networks/test_networks.py"
    )
    assert "3 passed" in found


def test_the_examples_join_the_tests_of_every_method_and_the_configs(tree):
    named = "coral or afn or registered"
    tests = ["tests/adaptation/test_every_method.py", "tests/conf/test_method_configs.py"]
    found = run(tree, "-m", "pytest", "-q", "-k", named, "-m", "not slow", *tests)
    assert "passed" in found
