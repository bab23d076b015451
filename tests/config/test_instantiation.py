"""What a group of the config may name, and what is built of a node."""

import functools
import inspect
import pathlib

import keras
import pytest
from omegaconf import OmegaConf

from dann import config
from dann.config.allowed_targets import GROUPS, allowed
from dann.schedules import Constant

FUNCTIONS = [
    "keras.config.enable_unsafe_deserialization",
    "keras.models.load_model",
    "keras.saving.load_model",
    "keras.utils.get_file",
    "keras.src.utils.file_utils.rmtree",
    "keras.src.utils.python_utils.func_load",
    "keras.layers.deserialize",
    "keras.callbacks.CSVLogger.on_train_begin",
    "keras.callbacks.RemoteMonitor",
    "keras.layers.Lambda",
    "keras.layers.TFSMLayer",
    "keras.layers.JaxLayer",
    "keras.src.utils.file_utils.os.remove",
    "dann.experiments.processes.Processes",
    "dann.experiments.processes.Processes.run",
    "dann.deployment.exports._remove",
    "dann.deployment.exports.export",
    "dann.deployment.load",
    "dann.config.run_script",
    "dann.config.script.shutil.rmtree",
    "dann.CDAN.from_config",
    "dann.networks",
    "dann.networks.import_modules",
    "dann.registry.import_modules",
    "dann.data.READERS.register",
]


@pytest.mark.parametrize("group", GROUPS)
def test_no_group_may_name_objects_that_run_code_or_write_files(group):
    for name in FUNCTIONS:
        with pytest.raises(config.ConfigError, match=f"_target_.*Received: {name}"):
            config.instantiate({"_target_": name}, group)
        with pytest.raises(config.ConfigError, match=f"_target_.*Received: {name}"):
            config.instantiate({"a": [{"b": {"_target_": name, "_partial_": True}}]}, group)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_classes_and_functions_of_both_packages_alone(group):
    for thing in allowed(group):
        assert inspect.isclass(thing) or (inspect.isfunction(thing) and group != "callbacks")
        assert thing.__module__.startswith(("dann.", "keras."))
        assert not thing.__module__.startswith(("dann.registry", "dann.checks", "dann.config"))
        assert not thing.__name__.startswith("_") or thing.__module__.startswith("dann.")


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("augmentation", ["keras.layers.RandomHue", "keras.layers.Pipeline", "keras.Sequential"]),
        ("optimizer", ["keras.optimizers.Lion", "keras.optimizers.schedules.CosineDecay"]),
        ("method", ["dann.CDAN", "dann.adaptation.CDAN", "dann.adaptation.cdan.CDAN"]),
        ("network", ["keras.regularizers.L2", "dann.layers.BinaryDense", "keras.layers.LSTM"]),
        ("callbacks", ["keras.callbacks.BackupAndRestore", "dann.diagnostics.Diagnostics"]),
    ],
)
def test_a_user_may_name_the_parts_that_a_group_is_for(group, names):
    for name in names:
        partial = config.instantiate({"_target_": name, "_partial_": True}, group)
        assert partial.func.__name__ == name.rpartition(".")[2]


def test_groups_do_not_lend_their_targets():
    for group, name in [
        ("data", "keras.layers.Dense"),
        ("optimizer", "keras.callbacks.CSVLogger"),
        ("callbacks", "dann.data.npz"),
        ("augmentation", "keras.callbacks.ModelCheckpoint"),
    ]:
        with pytest.raises(config.ConfigError, match=f"that `{group}` may name"):
            config.instantiate({"_target_": name}, group)


def test_nodes_are_built_inside_out_and_containers_are_plain():
    node = OmegaConf.create(
        {
            "rate": 0.1,
            "layers": [
                {"_target_": "keras.layers.Dropout", "rate": "${rate}", "noise_shape": [1, 2]},
                {"_target_": "keras.layers.Flatten"},
            ],
        }
    )
    layers = config.instantiate(node, "augmentation")["layers"]
    assert [type(layer) for layer in layers] == [keras.layers.Dropout, keras.layers.Flatten]
    assert (layers[0].rate, type(layers[0].noise_shape)) == (0.1, tuple)


def test_a_partial_waits_for_the_rest_of_its_arguments():
    node = {"_target_": "dann.schedules.Constant", "_partial_": True}
    made = config.instantiate(node, "schedule")
    assert isinstance(made, functools.partial)
    assert made(value=2) == Constant(2)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"_target_": "os.system", "command": "true"}, r"one of \['dann', 'keras'\].*os.system"),
        (
            {"a": [{"_target_": "subprocess.run"}]},
            "Received: subprocess.run of schedule.a.0._target_",
        ),
        ({"_target_": "dann.config.script.os.getcwd"}, "Received: dann.config.script.os.getcwd"),
        ({"_target_": "keras.nothing"}, "keras.nothing"),
        ({"_target_": ["keras.Model"]}, "Received: .'keras.Model'."),
        ({"_target_": "dann.schedules.Constant", "_args_": [1]}, "Received: .*_args_"),
        ({"_target_": "dann.schedules.Constant", "_partial_": "yes"}, "Received: .*_partial_"),
        ({"_target_": "dann.schedules.Constant", "value": "\\${oc.env:A}"}, "once it is resolved"),
        ({"_target_": "dann.schedules.Constant", "valu": 1}, "dann.schedules.Constant.*valu"),
        (
            {"_target_": "dann.schedules.Constant", "value": -1},
            "`value` must be a finite.*value=-1",
        ),
    ],
)
def test_a_node_that_cannot_or_must_not_be_built_is_refused(node, message):
    with pytest.raises(config.ConfigError, match=message):
        config.instantiate(OmegaConf.create(node), "schedule")


def test_what_conf_names_is_allowed_and_every_group_of_it_has_its_list():
    conf = pathlib.Path(__file__).parents[2] / "conf"
    named = {"regularizer": "regularizers"}
    groups = {path.name for path in conf.iterdir() if path.is_dir()}
    with_targets = {
        named.get(group, group)
        for group in groups
        if any("_target_" in path.read_text() for path in (conf / group).glob("*.yaml"))
    }
    assert with_targets - {"experiment"} == set(GROUPS)
