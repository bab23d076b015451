"""Keras knows every class of the package after `import dann`, and in scripts, which are lazy."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import dann

LOAD = """
import sys
import dann, keras, numpy
for path in sys.argv[1:]:
    model = keras.models.load_model(path)
    print(type(model).__name__, float(numpy.sum(model.predict(numpy.ones((3, 8)), verbose=0))))
print(*{"importlib_resources", "tensorboard", "tensorflow_datasets"} & sys.modules.keys())
"""

LAZY = """
import dann.training.run_directory, keras
names = set(keras.saving.get_custom_objects())
for name in dann.__all__:
    getattr(dann, name)
print(sorted(set(keras.saving.get_custom_objects()) - names))
"""


def run_python(code, *arguments, **environment):
    plain = {key: value for key, value in os.environ.items() if key != "DANN_LAZY_IMPORT"}
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=plain | environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def build_models():
    sgd = keras.optimizers.SGD(dann.schedules.GaninDecay(0.01, total_steps=10))
    backbone = dann.networks.binary_mlp_backbone((8,), hidden_units=(6, 6))
    model = dann.CDAN(backbone, 3, strength=dann.schedules.GaninSchedule(total_steps=10))
    bop = dann.optimizers.PerVariable({"binary": dann.optimizers.Bop()}, default_optimizer=sgd)
    model.compile(bop)
    yield model
    backbone = dann.networks.mlp_backbone((8,), hidden_units=(6,))
    model = dann.Invariant(backbone, 3, nuisances={"site": 2})
    model.compile("adam")
    yield model


@pytest.mark.slow
@pytest.mark.tensorflow
def test_fresh_process_loads_models_without_data_packages(tmp_path):
    paths, expected = [], []
    for model in build_models():
        paths.append(tmp_path / f"{type(model).__name__}.keras")
        model.save(paths[-1])
        outputs = model.predict(np.ones((3, 8)), verbose=0)
        expected.append((type(model).__name__, float(np.sum(outputs))))
    output = run_python(LOAD, *paths)
    *printed, packages = [line.split() for line in output.splitlines()]
    assert packages == []
    assert [name for name, _ in printed] == [name for name, _ in expected]
    assert [float(x) for _, x in printed] == pytest.approx([x for _, x in expected], rel=1e-5)


@pytest.mark.slow
def test_script_that_loads_a_run_knows_every_class():
    assert run_python(LAZY, DANN_LAZY_IMPORT="1") == "[]\n"
