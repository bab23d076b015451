"""The method that CONTRIBUTING.md adds as an example, as it stands."""

import inspect
import pathlib
import re
import sys
import types

import keras
import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import dann.adaptation
from dann import config
from dann.adaptation import DANN

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
(NODE,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
RNG = np.random.default_rng(0)
PAIR = {name: RNG.normal(size=(9, 4)) for name in ("source", "target")}
LABELS = np.arange(9) % 3


@pytest.fixture
def module(monkeypatch):
    """The example as the file that it would be."""
    module = types.ModuleType("dann.adaptation.coral")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(dann.adaptation, "coral", module, raising=False)
    exec(CODE, module.__dict__)
    return module


@pytest.fixture
def model(module):
    """The example, built as the script builds the methods of `conf/method/`."""
    method = config.instantiate(OmegaConf.create(NODE), "method")
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


def test_the_example_is_a_choice_of_the_script(module, tmp_path):
    (tmp_path / "method").mkdir()
    (tmp_path / "method/coral.yaml").write_text(NODE)
    overrides = ["paths.run_dir=run", f"hydra.searchpath=[file://{tmp_path}]", "method=coral"]
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", [*overrides, "method.weight=0.5", "regularizer=mcc"])
    built = config.build_model(cfg, cfg.method, (16, 16, 3), num_classes=3)
    assert type(built) is module.CORAL
    assert (built.weight, built.passes, built.reversal) == (0.5, "joint", None)
    assert [regularizer.name for regularizer in built.regularizers] == ["mcc"]


def test_the_example_begins_with_the_arguments_of_dann_and_ends_with_its_own(module):
    def named(method):
        every = inspect.signature(method).parameters.values()
        return [(p.name, p.default) for p in every if p.kind == p.POSITIONAL_OR_KEYWORD]

    lacks = {"domain_head", "domain_label_smoothing", "strength", "way"}
    assert all(f"`{name}`" in PAGE for name in lacks)
    of_dann = [pair for pair in named(DANN) if pair[0] not in lacks]
    assert named(module.CORAL) == [*of_dann, ("weight", 1.0)]
