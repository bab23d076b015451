"""The config of a run: compared when it resumes, and read afterwards."""

import shutil
import types
from unittest import mock

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf
from support.configs import compose_config

from dann.config import building, runs
from dann.training import RunDirectory

FIXED = ["schedule=constant", "optimizer=adam"]  # nothing follows the number of steps


def of(run, *overrides):
    return compose_config(
        *overrides, f"paths.run_dir={run}", "resume=true", "paths.cache_dir=cache"
    )


@pytest.fixture
def begun(tmp_path):
    """Begins a run with these overrides, and gives it a checkpoint."""

    def begin(*overrides):
        run = RunDirectory(tmp_path / "run")
        run.checkpoints.mkdir(parents=True)
        (run.checkpoints / "step-3.npz").touch()
        run.write_config({"config.yaml": OmegaConf.to_yaml(of(run, *overrides))})
        return run

    return begin


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ([], ["seed=3"], "seed 0 then, 3 now"),
        ([], ["method=cdan"], "method._target_ dann.DANN then, dann.CDAN now"),
        ([], ["network.backbone.filters=[16,33]"], "network.backbone.filters.1 32 then, 33 now"),
        ([], ["trainer.batch_size=8"], "trainer.batch_size 64 then, 8 now"),
        ([], ["regularizer=mcc"], "regularizers.mcc.weight None then, 1.0 now"),
        ([], ["trainer.steps=3000"], "optimizer.learning_rate.total_steps 2000 then, 3000 now"),
        (FIXED, [*FIXED, "trainer.steps=900"], "trainer.steps 2000 then, 900 now"),
        (FIXED, [*FIXED, "trainer.epochs=9"], "trainer.epochs None then, 9 now"),
        (["trainer.epochs=2"], ["trainer.epochs=3"], "schedule.total_steps 2 then, 3 now"),
    ],
)
def test_a_run_resumes_with_its_own_settings(begun, then, now, told):
    run = begun(*then)
    with pytest.raises(building.ConfigError) as raised:
        runs.is_done(of(run, *now))
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ([], []),
        ([], ["trainer.check_every=5", "trainer.steps_per_execution=1"]),
        ([], ["callbacks.metrics.filename=x.csv", "callbacks.tensorboard=null"]),
        ([], ["distribution=data_parallel", "distribution.devices=2"]),
        (FIXED, [*FIXED, "trainer.steps=3000"]),
        ([*FIXED, "trainer.epochs=2"], [*FIXED, "trainer.epochs=3"]),
    ],
)
def test_what_results_do_not_depend_on_may_change_and_a_run_may_grow(begun, then, now):
    assert runs.is_done(of(begun(*then), *now)) is False


def test_a_finished_run_is_done_unless_it_shall_be_longer(begun, capsys):
    run = begun(*FIXED)
    run.write_summary({"steps": 1000})
    assert runs.is_done(of(run, *FIXED)) is True
    assert capsys.readouterr().out == f"Finished already: {run}\n"
    assert runs.is_done(of(run, *FIXED, "trainer.steps=3000")) is False
    (run.checkpoints / "step-3.npz").unlink()  # it would begin anew, and lose what it has
    with pytest.raises(building.ConfigError):
        runs.is_done(of(run, *FIXED, "trainer.steps=3000"))


def test_resume_alone_takes_the_newest_unfinished_run_with_the_same_settings(
    begun, tmp_path, monkeypatch
):
    hydra = types.SimpleNamespace(overrides=mock.Mock(hydra=[]), mode=RunMode.RUN)
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    begun("seed=3")
    for name in ("run_2", "run_3", "run_9"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
    RunDirectory(tmp_path / "run_9").write_config({"config.yaml": "of: another version"})
    RunDirectory(tmp_path / "run_3").write_summary({})

    def chosen(seed):
        cfg = of(tmp_path / "run_4", f"seed={seed}")
        runs.choose_run(cfg)
        return RunDirectory(cfg.paths.run_dir).path.name

    assert chosen(3) == "run_2"
    with pytest.raises(
        building.ConfigError, match=r"unfinished are .*run_2 \(seed 3 then, 4 now\)"
    ):
        chosen(4)
    hydra.overrides.hydra = ["hydra.run.dir=run_4"]
    assert chosen(3) == "run_4"


def test_every_part_that_the_results_depend_on_is_compared():
    cfg = compose_config("paths.cache_dir=cache")
    free = {"resume", "paths", "experiment", "debug", "distribution", "callbacks"}
    assert {key.partition(".")[0] for key in runs.collect_settings(cfg)} - free == set(cfg) - free


def test_without_resume_nothing_is_compared(begun):
    cfg = of(begun(), "seed=3")
    cfg.resume = False
    assert runs.is_done(cfg) is False


def test_data_are_built_from_the_config_of_a_run_with_the_commands_paths(tmp_path, cache):
    cfg = compose_config(
        "balanced=true", f"paths.cache_dir={tmp_path}/theirs", "paths.data_dir=theirs"
    )
    (tmp_path / "run/.hydra").mkdir(parents=True)
    OmegaConf.save(cfg, tmp_path / "run/.hydra/config.yaml")
    found = runs.load_run_config(tmp_path / "run", {"data_dir": None, "cache_dir": str(cache)})
    assert (found.paths.data_dir, found.paths.run_dir) == ("theirs", str(tmp_path / "run"))
    domains = building.build_domains(found)
    assert domains.balanced
    assert domains.num_classes == 10
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("text", ["data: [", "- 1", "seed: abc", "nothing: 1", "data: !!python/x"])
def test_a_config_that_is_none_is_told(text, tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/config.yaml").write_text(text)
    with pytest.raises(building.ConfigError, match="Cannot read"):
        runs.load_run_config(tmp_path)
