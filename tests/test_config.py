import pathlib

import keras
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from dann import config
from dann.adaptation import DANN, SourceOnly
from dann.schedules import GaninSchedule

CONF = pathlib.Path(__file__).parent.parent / "conf"
CHOICES = [
    f"{path.parent.name}={path.stem}"
    for path in sorted(CONF.glob("*/*.yaml"))
    if path.parent.name != "data" or path.stem
]


def composed(*overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", ["paths.run_dir=run", *overrides])


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_composes_and_builds_what_it_names(choice):
    cfg = composed(choice)
    assert isinstance(config.instantiate(cfg.optimizer), keras.optimizers.Optimizer)
    assert config.instantiate(cfg.schedule)(0) is not None
    for callback in config.instantiate(cfg.callbacks).values():
        assert isinstance(callback, keras.callbacks.Callback)
    shape = (10,) if choice == "network=mlp" else (28, 28, 3)
    model = config.build_model(cfg, cfg.method, shape, num_classes=4)
    assert model.num_classes == 4


def test_the_default_is_dann_with_its_schedule_over_the_whole_run():
    cfg = composed("trainer.steps=70")
    model = config.build_model(cfg, cfg.method, (16, 16, 3), 10)
    assert type(model) is DANN
    assert model.reversal.schedule == GaninSchedule(total_steps=70, high=cfg.schedule.high)


def test_a_method_gets_only_the_parts_that_it_names():
    cfg = composed("method=source_only")
    assert type(config.build_model(cfg, cfg.method, (16, 16, 3), 10)) is SourceOnly


def test_the_papers_experiment_has_the_papers_settings():
    cfg = composed("experiment=mnist_to_mnist_m")
    optimizer = config.instantiate(cfg.optimizer)
    assert float(optimizer.learning_rate) == pytest.approx(0.01)
    assert optimizer.momentum == 0.9
    schedule = config.instantiate(cfg.schedule)
    assert schedule == GaninSchedule(total_steps=cfg.trainer.steps, gamma=10.0, high=1.0)
    model = config.build_model(cfg, cfg.method, (28, 28, 3), 10)
    assert model.count_params() == 205_893  # figure 4a, and the reversal's two


def test_containers_arrive_plain():
    node = OmegaConf.create(
        {"_target_": "keras.layers.Dropout", "rate": 0.1, "noise_shape": [1, 2]}
    )
    assert type(config.instantiate(node).noise_shape) in (list, tuple)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"_target_": "os.system", "command": "true"}, r"one of \['dann', 'keras'\].*os.system"),
        ({"a": [{"_target_": "subprocess.run"}]}, "Received: subprocess.run"),
        ({"_target_": "dann.config.os.getcwd"}, "Received: dann.config.os.getcwd"),
        ({"_target_": "keras.nothing"}, "keras.nothing"),
        ({"_target_": "dann.schedules.Constant", "valu": 1}, "dann.schedules.Constant.*valu"),
        ({"_target_": "dann.schedules.Constant", "value": -1}, "`value` must be finite"),
    ],
)
def test_a_node_that_cannot_or_must_not_be_built_is_refused(node, message):
    with pytest.raises(config.ConfigError, match=message):
        config.instantiate(OmegaConf.create(node))
