"""Run directories that somebody else made: nothing that their config names is run."""

import base64
import marshal
import os
import pathlib

import numpy as np
import pytest
import yaml
from keras.src.saving import serialization_lib
from omegaconf import OmegaConf

from dann import config

PROCESSES = "dann.experiments.processes.Processes"
FILES = "keras.src.utils.file_utils"
LOGGER = "keras.callbacks.CSVLogger"


def domains_of(directory, data, cache_dir=None, data_dir=None, **others):
    """What `diagnose.py` and `export.py` build of a run directory with this config."""
    (directory / ".hydra").mkdir(parents=True)
    theirs = {"data_dir": None, "cache_dir": "theirs", "run_dir": "theirs"}
    text = yaml.safe_dump({"data": data, "paths": theirs, **others})
    (directory / ".hydra/config.yaml").write_text(text)
    today = {"data_dir": data_dir, "cache_dir": str(cache_dir or directory / "cache")}
    return config.build_domains(config.config_of_run(directory, OmegaConf.create(today)))


@pytest.fixture
def precious(tmp_path):
    """A file that an attack would change, beside the stranger's run."""
    path = tmp_path / "precious"
    path.write_text("mine")
    return path


def nested(target, *arguments, **named):
    return {"_target_": target, "_args_": list(arguments), **named}


def loaded_function(code):
    text = base64.b64encode(marshal.dumps(eval(f"lambda _: {code}").__code__)).decode()
    return nested("keras.src.utils.python_utils.func_load", text)


ATTACKS = {
    "a command": lambda path: nested(
        f"{PROCESSES}.run", nested(PROCESSES), ["sh", "-c", f"rm {path}"]
    ),
    "a command, one level down": lambda path: {
        "_target_": "dann.data.npz",
        "source": nested(f"{PROCESSES}.run", nested(PROCESSES), ["rm", path]),
        "target": "b.npz",
    },
    "a command, as one of several sources": lambda path: {
        "_target_": "dann.data.npz",
        "sources": [nested(f"{PROCESSES}.run", nested(PROCESSES), ["rm", path])],
        "target": "b.npz",
    },
    "a partial that something else calls": lambda path: {
        "_target_": "keras.tree.map_structure",
        "_args_": [{"_target_": f"{FILES}.remove", "_partial_": True}, [path]],
    },
    "a function from its code": lambda path: nested(
        "keras.tree.map_structure", loaded_function(f"__import__('os').remove({path!r})"), [1]
    ),
    "Keras's own remove": lambda path: nested(f"{FILES}.remove", path),
    "Keras's own write": lambda path: nested(f"{FILES}.File", path, "w"),
    "Keras's own copy": lambda path: nested(f"{FILES}.copy", "/etc/hostname", path),
    "a method of a callback": lambda path: nested(f"{LOGGER}.on_train_begin", nested(LOGGER, path)),
    "the export's own remove": lambda path: {
        "_target_": "dann.deployment.exports._remove",
        "path": {"_target_": "dann.data.cache.made_folder", "_args_": [os.path.dirname(path)]},
    },
    "a target behind a resolver": lambda path: {
        "_target_": "${oc.decode:os.remove}",
        "path": path,
    },
    "a copy by a resolver": lambda path: {
        "_target_": "dann.data.npz",
        "source": "a.npz",
        "target": f"\\${{oc.create:{{_target_:shutil.copyfile,src:/etc/hostname,dst:'{path}'}}}}",
    },
    "a pickle by a resolver": lambda path: {
        "_target_": "dann.data.npz",
        "source": f"\\${{oc.create:{{_target_:numpy.load,file:'{path}.npy',allow_pickle:true}}}}",
        "target": "b.npz",
    },
    "unsafe deserialization": lambda path: {
        "_target_": "keras.config.enable_unsafe_deserialization"
    },
    "a callback in place of data": lambda path: {"_target_": LOGGER, "filename": path},
    "a model file": lambda path: {"_target_": "keras.models.load_model", "filepath": path},
    "Hydra's own words": lambda path: {
        "_target_": "dann.data.npz",
        "_recursive_": False,
        "source": "a",
        "target": "b",
    },
}


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.unlink, (self.path,)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_strangers_run_names_is_not_run(attack, precious, tmp_path):
    bomb = np.empty(1, object)
    bomb[0] = Bomb(precious)
    np.save(f"{precious}.npy", bomb)
    try:
        with pytest.raises(config.ConfigError, match="_target_|[Rr]esolve|_recursive_"):
            domains_of(tmp_path / "run", ATTACKS[attack](str(precious)))
        assert serialization_lib.in_safe_mode() is not False
    finally:
        serialization_lib.enable_unsafe_deserialization.__globals__[
            "global_state"
        ].set_global_attribute("safe_mode_saving", None)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize(
    ("data", "others"),
    [
        ({"source": "${oc.env:SECRET}"}, {}),
        ({"source": "\\${oc.env:SECRET}"}, {}),
        ({"source": "${method.name}"}, {"method": {"name": "${oc.env:SECRET}"}}),
        ({"source": "a", "test_share": "${seed}"}, {"seed": "${oc.env:SECRET}"}),
        ({"source": "${paths.data_dir}"}, {"paths": {"data_dir": "${oc.env:SECRET}"}}),
    ],
)
def test_a_strangers_run_reads_nothing_of_the_environment(data, others, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "do not tell")
    with pytest.raises(Exception) as raised:  # noqa: PT011
        domains_of(tmp_path, {"_target_": "dann.data.npz", "target": "b", **data}, **others)
    assert isinstance(raised.value, config.ConfigError | ValueError)
    assert "do not tell" not in str(raised.value)


def test_a_strangers_run_does_not_decide_where_data_are_kept(tmp_path, cache):
    elsewhere = tmp_path / "elsewhere"
    data = {"_target_": "dann.data.digits_to_photos", "cache_dir": str(elsewhere)}
    assert domains_of(tmp_path / "run", data, cache_dir=cache).num_classes == 10
    assert not elsewhere.exists()


@pytest.mark.parametrize(("name", "read"), [("mnist", True), ("usps", True), ("cifar10_n", False)])
def test_raw_files_of_a_strangers_run_reach_no_data_set_that_unpickles_them(name, read, tmp_path):
    """TFDS's `cifar10_n` loads a pickle from the folder of raw files."""
    (tmp_path / ".hydra").mkdir()
    data = {"_target_": "dann.data.tfds_pair", "data_dir": "${paths.data_dir}"}
    data |= {"source": name, "target": "mnist"}
    text = yaml.safe_dump({"data": data, "paths": {"data_dir": "theirs"}})
    (tmp_path / ".hydra/config.yaml").write_text(text)
    today = OmegaConf.create({"data_dir": None, "cache_dir": "cache"})
    cfg = config.config_of_run(tmp_path, today)
    assert cfg.data.data_dir == ("theirs" if read else None)
    today.data_dir = "mine"
    assert config.config_of_run(tmp_path, today).data.data_dir == "mine"


def test_tags_of_python_in_the_yaml_are_refused(tmp_path, precious):
    (tmp_path / ".hydra").mkdir()
    text = f'data: !!python/object/apply:os.remove ["{precious}"]\n'
    (tmp_path / ".hydra/config.yaml").write_text(text)
    with pytest.raises(config.ConfigError, match=r"config.yaml"):
        config.config_of_run(tmp_path)
    assert precious.read_text() == "mine"


def _doubling(times):
    """A config of a few lines that resolves to 2^times words."""
    keys = [f"  a{i}: '${{data.a{i + 1}}} ${{data.a{i + 1}}}'" for i in range(times)]
    return "\n".join(["data:", "  _target_: dann.data.npz", *keys, f"  a{times}: word"])


def _sources(count, folder):
    """A config of many sources in one folder."""
    names = [f"'${{paths.data_dir}}/{number}.npz'" for number in range(count)]
    data = (
        f"data: {{_target_: dann.data.npz, name: x, target: t.npz, sources: [{', '.join(names)}]}}"
    )
    return f"{data}\npaths: {{data_dir: '{folder}'}}\n"


def test_any_number_of_sources_may_lie_in_one_folder(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/config.yaml").write_text(_sources(30, "/a"))
    cfg = config.config_of_run(tmp_path, {"cache_dir": "/c"})
    assert cfg.data.sources[29] == "/a/29.npz"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &a [1]\ndata: {x: [*a, *a]}\n", "expected no aliases"),
        ("[" * 100_000, "expected at most 20 levels"),
        ("data: " + "{a: " * 90 + "1" + "}" * 90, "expected at most 20 levels"),
        (_doubling(30), "may hold 16 references"),
        (_sources(30, "x" * 5000), "may hold 16 references"),
        (_sources(30, "${data.name}"), "may hold 16 references"),
        ("data: {a: 1}\npaths: 5\n", "paths of .* must be values by name"),
    ],
)
def test_yaml_that_stands_for_more_than_it_holds_is_refused(text, told, tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/config.yaml").write_text(text)
    with pytest.raises(config.ConfigError, match=told):
        config.config_of_run(tmp_path)
