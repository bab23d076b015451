"""What a node of a config lacks for its group is told before Keras is imported."""

import pytest

import dann
from dann.config.config_error import ConfigError
from dann.config.node_checks import check_nodes, check_teacher

FLIP = {"_target_": "keras.layers.RandomFlip"}
BACKBONE = {"_target_": "dann.networks.application_backbone", "_partial_": True}
LOGGER = {"_target_": "keras.callbacks.CSVLogger", "filename": "not/there/x.csv"}
FOLDERS = {"_target_": "dann.data.image_folder", "source": "a", "target": "b"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"callbacks": {"x": 3}}, "callbacks.x must name a callback as `_target_`. Received: 3"),
        ({"callbacks": {"x": LOGGER}}, "callbacks.x.filename must be in a folder that exists"),
        ({"regularizers": {"x": {"y": 1}}}, "regularizers.x must name a regularizer"),
        ({"augmentation": [FLIP]}, "augmentation must have layers by domain"),
        ({"augmentation": {"sorce": []}}, "under source, target, blend. Received: sorce"),
        (
            {"augmentation": {"source": [FLIP, 3]}},
            "source must name layers as `_target_`. Received: 3",
        ),
        ({"augmentation": {"blend": 3}}, "augmentation.blend must name layers"),
        ({"method": {"teacher": "/nope"}}, "finished run, or a .keras file. Received: /nope"),
        ({"method": {"teacher": "x" * 300 + ".keras"}}, "finished run, or a .keras file"),
        ({"method": {"teacher": 3}}, "finished run, or a .keras file. Received: 3"),
        (
            {"network": {"backbone": {**BACKBONE, "name": "ResNet5"}}},
            "similar: ResNet50, .*. Received: ResNet5",
        ),
        (
            {"network": {"backbone": {**BACKBONE, "name": "ResNet50", "weights": "imagnet"}}},
            "'imagenet', null or an existing file of weights. Received: imagnet",
        ),
    ],
)
def test_what_cannot_serve_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        check_nodes(config)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"callbacks": None, "augmentation": None, "data": None, "network": None},
        {"callbacks": {"x": None}, "regularizers": {"x": None}},
        {"callbacks": {"x": {**LOGGER, "filename": "x.csv"}}},
        {"augmentation": {"source": [FLIP], "target": FLIP, "blend": FLIP}},
        {"augmentation": {"source": [], "target": []}},
        {"method": {"teacher": "???"}},
        {"network": {"backbone": {**BACKBONE, "weights": "imagenet"}}},
        {"network": {"backbone": {**BACKBONE, "name": "???", "weights": "???"}}},
        {"paths": {"run_dir": "not"}, "callbacks": {"x": LOGGER}},
        {"network": {"backbone": {**BACKBONE, "name": "MobileNetV2", "weights": None}}},
        {"network": {"backbone": "x"}},
    ],
)
def test_what_may_serve_passes(config):
    check_nodes(config)


def test_diagnostics_are_those_that_there_are():
    node = {"_target_": "dann.diagnostics.Diagnostics"}
    known = list(dann.diagnostics.DIAGNOSTICS)
    check_nodes({"callbacks": {"x": node, "y": {**node, "diagnostics": known}}})
    for wrong, error in (("conflict", TypeError), (["conflict", "konflict"], ValueError)):
        with pytest.raises(error, match="callbacks.x.diagnostics"):
            check_nodes({"callbacks": {"x": {**node, "diagnostics": wrong}}})


def test_a_teacher_is_a_file_or_the_run_that_wrote_one(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    with pytest.raises(ConfigError, match="finished run"):
        check_teacher(str(tmp_path / "run"))
    for file in ("run/classifier.keras", "other.keras"):
        (tmp_path / file).touch()
        assert check_teacher(str(tmp_path / file)) == tmp_path / file
    assert check_teacher(str(tmp_path / "run")) == tmp_path / "run/classifier.keras"
    check_nodes({"method": {"teacher": str(tmp_path / "run")}})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_teacher("~/run") == tmp_path / "run/classifier.keras"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"data.source must be a folder below data.root=\S+. Received: a"),
        ({"source": "c"}, "data.target must be a folder below data.root=.*. Received: b"),
        ({"sources": ["c", "d"]}, "data.sources must be a folder below .*. Received: d"),
        ({"source": "c", "target": "c" * 300}, "data.target must be a folder"),
        ({"source": "c", "target": "c"}, None),
        ({"source": "c", "target": "~c"}, None),  # a folder of this name, no home
        ({"source": "c", "target": "???"}, None),
        ({"source_list": "c.txt", "target": "c"}, None),
    ],
)
def test_the_folders_of_domains_must_be_there(changes, message, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "~c").mkdir()
    (tmp_path / "c.txt").touch()
    config = {"data": {**FOLDERS, "root": str(tmp_path), **changes}}
    if message is None:
        check_nodes(config)
    else:
        with pytest.raises(ConfigError, match=message):
            check_nodes(config)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source_list": "list.txt"}, None),
        ({"source_list": "none.txt"}, "data.source_list must be .* Received: none.txt"),
        ({"root": "???"}, None),
        ({"root": 5}, "data.root must be a path; quote numbers. Received: 5"),
        ({"cache_dir": 5}, "data.cache_dir must be a path; quote numbers. Received: 5"),
        ({"cache_dir": "not/there/yet"}, None),
        ({"target_list": "~nobody_of_this_name/a"}, "data.target_list must be a file or folder"),
        ({"target_list": "a" * 300}, "data.target_list must be a file or folder"),
    ],
)
def test_what_a_reader_reads_must_be_there(given, message, tmp_path):
    (tmp_path / "list.txt").touch()
    node = {"_target_": "dann.data.image_folder", "root": str(tmp_path), **given}
    if message is None:
        check_nodes({"data": node})
    else:
        with pytest.raises(ConfigError, match=message):
            check_nodes({"data": node})


def test_each_of_several_sources_must_be_there(tmp_path):
    (tmp_path / "a.npz").touch()
    there, missing = str(tmp_path / "a.npz"), str(tmp_path / "b.npz")
    node = {"_target_": "dann.data.npz", "source": "???", "target": there}
    check_nodes({"data": {**node, "sources": [there]}})
    with pytest.raises(ConfigError, match=r"^data.sources must be .* Received: .*b\.npz$"):
        check_nodes({"data": {**node, "sources": [there, missing]}})
