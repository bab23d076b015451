"""The method that CONTRIBUTING.md adds as an example, as it stands."""

import pathlib
import re
import sys
import types

import keras
import numpy as np
import pytest
from omegaconf import OmegaConf

import dann.adaptation
from dann import config

PAGE = (pathlib.Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
RNG = np.random.default_rng(0)
PAIR = {name: RNG.normal(size=(9, 4)) for name in ("source", "target")}
LABELS = np.arange(9) % 3


@pytest.fixture
def model(monkeypatch):
    """The example, built as the script builds the methods of `conf/method/`."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (node,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    module = types.ModuleType("dann.adaptation.coral")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(dann.adaptation, "coral", module, raising=False)
    exec(code, module.__dict__)
    method = config.instantiate(OmegaConf.create(node))
    entry = keras.Input((4,))
    features = keras.layers.Dense(5, use_bias=False)(entry)
    return method(keras.Model(entry, features), num_classes=3, weight=2.0)


def test_the_example_adds_the_distance_of_the_covariances(model):
    weights = np.array(model.backbone.weights[0], "float64")
    model.compile(keras.optimizers.SGD(0.1))
    logs = model.train_on_batch(PAIR, LABELS, return_dict=True)
    source, target = (np.cov(PAIR[name] @ weights, rowvar=False) for name in ("source", "target"))
    assert logs["coral/loss"] == pytest.approx(2 * ((source - target) ** 2).sum() / 100, rel=1e-5)
    assert logs["loss"] == pytest.approx(logs["coral/loss"] + logs["label/loss"], rel=1e-6)
    assert np.abs(model.backbone.weights[0] - weights).max() > 0


def test_the_example_comes_back_from_a_file(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert again.weight == 2.0
    np.testing.assert_array_equal(
        again.predict(PAIR["target"], verbose=0), model.predict(PAIR["target"], verbose=0)
    )
