"""Untrusted configs: only targets on the allow-list are called."""

import importlib

import keras
import pytest
import yaml
from keras.layers import Layer
from omegaconf import OmegaConf
from support.configs import compose_config

import dann
from dann.config import building, runs
from dann.config.building import READER_NAMES, get_target_names
from dann.config.errors import ConfigError
from dann.gradients.estimators import Estimator

KINDS = (
    *(Layer, keras.Model, keras.losses.Loss, keras.metrics.Metric, keras.callbacks.Callback),
    *(keras.optimizers.Optimizer, keras.optimizers.schedules.LearningRateSchedule),
    *(keras.initializers.Initializer, keras.regularizers.Regularizer, keras.Quantizer),
    *(keras.constraints.Constraint, keras.Operation, keras.DTypePolicy, keras.layers.InputSpec),
    keras.optimizers.OptimizerMap,
    *(dann.schedules.StrengthSchedule, dann.Regularizer, Estimator),
)
CALLS = """
    os.system os.remove posix.system subprocess.run subprocess.Popen shutil.rmtree builtins.eval
    builtins.exec builtins.open builtins.__import__ runpy.run_path importlib.import_module
    pickle.loads numpy.load tensorflow.py_function keras.src.utils.file_utils.remove
    keras.src.utils.file_utils.copy keras.tree.map_structure keras.src.utils.python_utils.func_load
    keras.utils.get_file keras.models.load_model keras.saving.load_model
    keras.config.enable_unsafe_deserialization keras.saving.KerasFileEditor keras.layers.Lambda
    keras.layers.TFSMLayer keras.layers.JaxLayer keras.layers.FlaxLayer
    keras.layers.TorchModuleWrapper keras.callbacks.LambdaCallback keras.callbacks.RemoteMonitor
    keras.src.layers.core.lambda_layer.Lambda keras.callbacks.CSVLogger.on_train_begin
    dann.config.script dann.config.building.instantiate dann.config.building.importlib.import_module
    dann.config.script.os.getcwd dann.training.run_directory.RunDirectory dann.registry.Registry
    hydra.utils.instantiate hydra.utils.get_method functools.partial dann keras
    keras.saving.register_keras_serializable keras.layers.deserialize keras.optimizers.get
    dann.layers.deserialize dann.data.npz.np.load dann.networks.keras.models.load_model
"""
REFUSAL = r"must be a public class of dann or keras|Expected text without `\$\{`"


def list_malicious_nodes(path):
    """Yields nodes that would call each of the targets by every mechanism of Hydra."""
    resolvers = "oc.decode:{}", "oc.env:NO,{}", "oc.select:no,{}"
    for target in ["", *CALLS.split()]:
        call = {"_target_": target, "_args_": [path], "path": path}
        yield call
        yield {"_target_": "keras.layers.Dense", "units": call}
        yield {"_target_": "keras.Sequential", "layers": [[call]]}
        yield {"_target_": target, "_partial_": True, "path": path, "_recursive_": False}
        yield {"a": {"b": [{"c": call}]}}
        yield {"_target_": "dann.CDAN", "_partial_": True, "strength": {**call, "_partial_": True}}
        for resolver in resolvers if target else ():
            yield {"_target_": "${" + resolver.format(target) + "}", "_args_": [path]}
        hidden = "${oc.create:{_target_:" + (target or "x") + f",_args_:['{path}']" + "}}"
        yield {"_target_": "keras.layers.Dense", "units": hidden}
        yield {"_target_": "keras.layers.Dense", "units": "\\" + hidden}


def test_untrusted_config_calls_no_foreign_target(tmp_path):
    sentinel = tmp_path / "sentinel"
    sentinel.write_text("unchanged")
    texts = [yaml.safe_dump(node) for node in list_malicious_nodes(str(sentinel))]
    assert sum(map(len, texts)) > 50_000
    for text in texts:
        for names in (None, READER_NAMES):
            with pytest.raises(ConfigError, match=REFUSAL):
                building.instantiate(OmegaConf.create(text), names)
    assert sentinel.read_text() == "unchanged"
    assert [path.name for path in tmp_path.iterdir()] == ["sentinel"]
    assert keras.src.saving.serialization_lib.in_safe_mode() is not False


@pytest.mark.parametrize("node", list(list_malicious_nodes("sentinel"))[::11], ids=str)
def test_untrusted_run_directory_calls_no_foreign_target(node, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentinel").write_text("unchanged")
    (tmp_path / "run/.hydra").mkdir(parents=True)
    for data in (node, {"_target_": "dann.data.npz", "source": node, "target": "b.npz"}):
        text = yaml.safe_dump({"data": data, "paths": {"cache_dir": "cache"}})
        (tmp_path / "run/.hydra/config.yaml").write_text(text)
        with pytest.raises(ConfigError, match=REFUSAL):
            building.build_domains(runs.load_run_config(tmp_path / "run"))
    assert (tmp_path / "sentinel").read_text() == "unchanged"


def test_only_data_may_name_readers():
    cfg = compose_config("+data.x={_target_:keras.callbacks.CSVLogger,filename:x}")
    with pytest.raises(ConfigError, match=REFUSAL):
        building.build_domains(cfg)
    with pytest.raises(ConfigError, match=REFUSAL):
        building.instantiate({"_target_": "dann.data.npz", "source": "a", "target": "b"})


def test_allow_list_contains_only_harmless_classes_and_networks():
    for name in get_target_names():
        module, _, class_name = name.rpartition(".")
        member = getattr(importlib.import_module(module), class_name)
        assert module == "dann.networks" or issubclass(member, KINDS), name
