import json

import pytest
from omegaconf import OmegaConf
from support.configs import composed

from dann import config
from dann.training import RunDirectory


@pytest.fixture
def run(tmp_path):
    """A run that has a checkpoint and began with the default settings."""
    run = RunDirectory(tmp_path / "run")
    (run.checkpoints / "step-3").mkdir(parents=True)
    run.config_file.parent.mkdir()
    run.config_file.write_text("seed: 0")
    run.keep_settings(config.settings_of(changed(run)))
    return run


def changed(run, *overrides):
    cfg = composed(*overrides)
    OmegaConf.update(cfg, "paths.run_dir", str(run.path))
    OmegaConf.update(cfg, "resume", True)
    return cfg


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["seed=3", "balanced=true"], "Received: seed 0 then, 3 now; balanced False then, True"),
        (["trainer.steps=300"], "Received: trainer.steps 1000 then, 300 now; "),
        (["trainer.steps=3000"], "no schedule follows .*; schedule.total_steps 1000 then, 3000"),
        (["method=source_only"], "method._target_ dann.DANN then, dann.SourceOnly now"),
        (
            ["+callbacks.stop._target_=keras.callbacks.EarlyStopping"],
            "callbacks.stop._target_ none",
        ),
    ],
)
def test_other_settings_are_refused_by_key_and_the_first_config_is_put_back(overrides, told, run):
    run.config_file.write_text("seed: 3")  # as Hydra does
    with pytest.raises(config.ConfigError, match=told):
        config.is_done(changed(run, *overrides))
    assert run.config_file.read_text() == "seed: 0"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["paths.cache_dir=elsewhere", "trainer.check_every=7"],
        ["callbacks=none"],
        ["trainer.steps_per_execution=4"],
    ],
)
def test_what_the_numbers_do_not_depend_on_may_change(overrides, run):
    assert config.is_done(changed(run, *overrides)) is False


def test_a_run_that_kept_its_steps_in_a_call_among_the_settings_goes_on(run):
    run.keep_settings({**config.settings_of(changed(run)), "trainer.steps_per_execution": 1})
    assert config.is_done(changed(run)) is False


def test_steps_may_grow_where_no_schedule_follows_them(run, capsys):
    fixed = ["schedule=constant", "optimizer=adam"]
    run.keep_settings(config.settings_of(changed(run, *fixed)))
    run.write_summary({"steps": 1500})
    assert config.is_done(changed(run, *fixed)) is True
    assert capsys.readouterr().out == f"Finished already: {run}\n"
    assert config.is_done(changed(run, *fixed, "trainer.steps=3000")) is False


def test_epochs_may_grow_where_no_schedule_follows_the_steps(run):
    fixed = ["schedule=constant", "optimizer=adam", "trainer.epochs=2"]
    run.keep_settings(config.settings_of(changed(run, *fixed)))
    run.write_summary({"steps": 24})
    assert config.is_done(changed(run, *fixed)) is True
    assert config.is_done(changed(run, *fixed, "trainer.epochs=3")) is False
    with pytest.raises(config.ConfigError, match="may grow only.*trainer.epochs 2 then, 1 now"):
        config.is_done(changed(run, *fixed, "trainer.epochs=1"))


def test_epochs_may_not_grow_where_a_schedule_follows_the_steps(run):
    run.keep_settings(config.settings_of(changed(run, "trainer.epochs=2")))
    with pytest.raises(config.ConfigError, match="may grow only.*trainer.epochs 2 then, 3 now"):
        config.is_done(changed(run, "trainer.epochs=3"))


def test_a_number_of_steps_does_not_become_one_of_epochs(run):
    fixed = ["schedule=constant", "optimizer=adam"]
    run.keep_settings(config.settings_of(changed(run, *fixed)))
    with pytest.raises(config.ConfigError, match="trainer.epochs None then, 9 now"):
        config.is_done(changed(run, *fixed, "trainer.epochs=9"))


def test_a_finished_run_without_checkpoints_does_not_begin_anew_to_grow(run):
    fixed = ["schedule=constant", "optimizer=adam"]
    run.keep_settings(config.settings_of(changed(run, *fixed)))
    (run.checkpoints / "step-3").rmdir()
    run.write_summary({"steps": 1500})
    with pytest.raises(config.ConfigError, match="from its last checkpoint.*no checkpoints in"):
        config.is_done(changed(run, *fixed, "trainer.steps=3000"))
    assert run.is_finished()


def test_steps_may_not_grow_where_epochs_would_grow_with_them(run):
    fixed = ["schedule=constant", "optimizer=adam"]
    run.keep_settings(config.settings_of(changed(run, *fixed, "trainer.steps=50")))
    with pytest.raises(config.ConfigError, match="trainer.steps 50 then, 200 now"):
        config.is_done(changed(run, *fixed, "trainer.steps=200"))


def test_every_part_that_the_numbers_depend_on_is_compared(run):
    cfg = changed(run)
    parts = {key.partition(".")[0] for key in config.settings_of(cfg)}
    free = {"resume", "checkpoint", "paths", "experiment", "debug", "distribution"}
    assert parts == set(cfg) - free - {"hydra"}


def test_without_resume_nothing_is_compared(run):
    cfg = changed(run, "seed=3")
    OmegaConf.update(cfg, "resume", False)
    assert config.is_done(cfg) is False


def test_broken_settings_are_told(run):
    run.settings_file.write_text("{")
    with pytest.raises(ValueError, match="Expected settings in JSON. Received: "):
        config.is_done(changed(run))
    run.settings_file.write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="Expected settings by name. Received: "):
        config.is_done(changed(run))


def test_missing_settings_are_told(run, capsys):
    run.settings_file.unlink()
    assert config.is_done(changed(run, "seed=3")) is False
    assert f"warning: {run.settings_file} is missing" in capsys.readouterr().err
