"""The config of a run: compared when it starts or resumes, and loaded afterwards."""

import os
import shutil
import types
from unittest import mock

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf
from support.configs import CONF, compose_config

from dann.config import runs
from dann.config.errors import ConfigError
from dann.training.checkpoints import Checkpoints
from dann.training.run_directory import RunDirectory

DATA_PATH = f"data.path={CONF}/data"
FIXED = ["schedule=constant", "optimizer=adam"]  # nothing depends on the number of steps


def compose_for(run, *overrides):
    return compose_config(f"paths.run_dir={run}", "paths.cache_dir=cache", *overrides)


@pytest.fixture
def hydra(monkeypatch):
    """Hydra's own config for a command with `hydra.run.dir=`."""
    overrides = mock.Mock(hydra=["hydra.run.dir=run"])
    config = types.SimpleNamespace(overrides=overrides, mode=RunMode.RUN)
    monkeypatch.setattr(HydraConfig, "get", lambda: config)
    return config


@pytest.fixture
def start(tmp_path, hydra):
    """Creates the directory of a run that was stopped after a checkpoint."""

    def create(*overrides):
        run = RunDirectory(tmp_path / "run")
        checkpoint = run.checkpoints / "step-3.npz"
        with Checkpoints(run.checkpoints).manifest.write(checkpoint) as draft:
            draft.touch()
        run.write_config({"config.yaml": OmegaConf.to_yaml(compose_for(run, *overrides))})
        return run

    return create


OTHER_SETTINGS = [
    ([], ["seed=3"], "seed=3 instead of 0"),
    ([], ["network=binary_lenet"], "; and 10 more"),
    ([], ["trainer.batch_size=8"], "trainer.batch_size=8 instead of None"),
    ([], ["regularizer=mcc"], "regularizers.mcc._target_=dann.MCC instead of None"),
    ([], ["trainer.steps=900"], "Received: trainer.steps=900 instead of 2000. Choose another"),
    ([], ["schedule.total_steps=3000"], "schedule.total_steps=3000 instead of 2000"),
    (FIXED, [*FIXED, "trainer.steps=900"], "trainer.steps=900 instead of 2000"),
    (["trainer.epochs=2"], ["trainer.epochs=1"], "trainer.epochs=1 instead of 2"),
]


@pytest.mark.parametrize(
    ("then", "now", "words"), OTHER_SETTINGS, ids=[" ".join(now) for _, now, _ in OTHER_SETTINGS]
)
def test_other_settings_are_refused(start, then, now, words):
    run = start(*then)
    for resume in ("resume=true", "resume=false"):
        with pytest.raises(ConfigError, match="resume=false overwrite=true") as raised:
            runs.find_run(compose_for(run, *now, resume))
        assert words in str(raised.value)
    assert runs.find_run(compose_for(run, *now, "overwrite=true")) == (mock.ANY, False)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ([], []),
        ([], ["trainer.steps_per_execution=1"]),
        ([], ["callbacks.metrics.filename=x.csv", "callbacks.tensorboard=null"]),
        ([], ["distribution=data_parallel", "distribution.devices=2"]),
        (FIXED, [*FIXED, "trainer.steps=3000"]),
        ([], ["trainer.steps=3000"]),
        (["trainer.epochs=2"], ["trainer.epochs=3"]),
        (["data=npz", f"paths.work_dir={CONF}", "data.path=data"], ["data=npz", DATA_PATH]),
    ],
)
def test_resumed_run_may_be_longer_or_log_elsewhere(start, then, now):
    run = start(*then)
    assert runs.find_run(compose_for(run, *now, "resume=true")) == (mock.ANY, False)
    with pytest.raises(ConfigError, match="no unfinished run in .* with resume=true, or start ag"):
        runs.find_run(compose_for(run, *then))
    if any("=3" in word for word in now):
        with pytest.raises(ConfigError, match=f"{now[-1]} instead of 2.*Continue it with resume="):
            runs.find_run(compose_for(run, *now))


def test_finished_run_is_done_unless_it_becomes_longer(start):
    run = start(*FIXED)
    run.write_summary({"steps": 1000})
    resume, longer = [*FIXED, "resume=true"], [*FIXED, "resume=true", "trainer.steps=3000"]
    assert runs.find_run(compose_for(run, *resume)).is_done
    assert not runs.find_run(compose_for(run, *longer)).is_done
    with pytest.raises(FileExistsError, match="overwrite=true, which deletes its results"):
        runs.find_run(compose_for(run, *FIXED))
    (run.checkpoints / "step-3.npz").unlink()  # a longer run would lose the results
    with pytest.raises(ConfigError, match="trainer.steps=3000 instead of 2000"):
        runs.find_run(compose_for(run, *longer))


def test_longer_run_keeps_its_schedules(start):
    run = start()
    longer = compose_for(run, "trainer.steps=3000", "resume=true")
    keys = "optimizer.learning_rate.total_steps", "schedule.total_steps"
    assert runs.keep_schedules(longer, run.path) == dict.fromkeys(keys, 2000)
    assert (longer.trainer.steps, longer.method.strength.total_steps) == (3000, 2000)
    run.write_config(runs_config := {"config.yaml": OmegaConf.to_yaml(longer)})
    again = compose_for(run, "trainer.steps=3000", "resume=true")
    assert runs.find_run(again) == (mock.ANY, False)
    assert runs.keep_schedules(again, run.path) == dict.fromkeys(keys, 2000)
    assert OmegaConf.to_yaml(again) == runs_config["config.yaml"]
    epochs = compose_for(run, "trainer.epochs=2")
    epochs.trainer.steps = 12  # as `count_steps` sets it
    run.write_config({"config.yaml": OmegaConf.to_yaml(epochs)})
    assert runs.keep_schedules(compose_for(run, "trainer.epochs=2"), run.path) == {}
    longer = compose_for(run, "trainer.epochs=3")
    assert runs.keep_schedules(longer, run.path) == dict.fromkeys(keys, 12)


def test_resume_alone_selects_the_newest_unfinished_run(start, tmp_path, hydra):
    start("seed=3")
    hydra.overrides.hydra = []
    for name in ("run_2", "run_3", "run_9"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
    RunDirectory(tmp_path / "run_9").write_config({"config.yaml": "of: another version"})
    RunDirectory(tmp_path / "run_3").write_summary({})

    def select(seed):
        cfg = compose_for(tmp_path / "run_4", *f"seed={seed} resume=true".split())
        return runs.find_run(cfg).directory.path.name

    assert select(3) == "run_2"
    with pytest.raises(ConfigError, match=r"run_2 \(fewer steps\)"):
        select("3 trainer.steps=3000")
    with pytest.raises(ConfigError, match=r"Unfinished runs: .*run_2 \(seed=4 instead of 3\)"):
        select(4)
    hydra.overrides.hydra = ["hydra.run.dir=run_4"]
    assert select(3) == "run_4"


def test_every_group_that_results_depend_on_is_compared():
    cfg = compose_config("paths.cache_dir=cache")
    free = {"resume", "overwrite", "paths", "experiment", "debug", "distribution", "callbacks"}
    assert {key.partition(".")[0] for key in runs.collect_settings(cfg)} - free == set(cfg) - free


def test_config_of_a_run_is_loaded_with_other_paths(tmp_path):
    theirs = "paths.cache_dir=theirs", "paths.data_dir=theirs"
    (tmp_path / ".hydra").mkdir()
    config = compose_config("data=mnist_to_mnist_m", *theirs)
    OmegaConf.save(config, tmp_path / ".hydra/config.yaml")
    paths = {"data_dir": None, "cache_dir": "mine", "work_dir": None}
    loaded = runs.load_run_config(tmp_path, paths)
    assert (loaded.paths.data_dir, loaded.paths.run_dir) == ("theirs", str(tmp_path))
    assert loaded.data.cache_dir == os.path.abspath("mine")


PYTHON_TAG = "data: !!python/object/apply:os.mkdir [called]"


@pytest.mark.parametrize("text", ["data: [", "- 1", "seed: abc", "nothing: 1", PYTHON_TAG])
def test_unreadable_config_is_named(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/config.yaml").write_text(text)
    with pytest.raises(ConfigError, match="Cannot read"):
        runs.load_run_config(tmp_path)
    assert not (tmp_path / "called").exists()
