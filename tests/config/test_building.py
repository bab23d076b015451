"""Every choice of `conf/` builds, and the objects have the settings of the config."""

import dataclasses
import types

import keras
import numpy as np
import pytest
from hydra.errors import InstantiationException
from support.configs import CONF, compose_config, minimal_domains

from dann.adaptation import DANN, MCC, ConditionalEntropy, VirtualAdversarial
from dann.config import building
from dann.config.errors import ConfigError, explain_error
from dann.data import Standardizer
from dann.data.nuisances import Nuisances
from dann.schedules import GaninSchedule, StrengthSchedule

CHOICES = [
    pytest.param(
        f"{path.parent.name}={path.stem}",
        # Each consists of other choices.
        marks=[pytest.mark.slow] if path.parent.name == "experiment" else [],
    )
    for path in sorted(CONF.glob("*/*.yaml"))
]
SHAPES = {"mlp_backbone": (10,), "time_series_backbone": (30, 2)}
PARTS = {"optimizer": keras.optimizers.Optimizer, "callbacks": dict, "schedule": StrengthSchedule}
MODEL_GROUPS = ("network", "method", "augmentation", "regularizer", "experiment")


def build(*overrides, shape=(28, 28, 1), num_classes=10, nuisances=None, standardizer=None):
    cfg = compose_config(*overrides)
    domains = minimal_domains(shape, num_classes, nuisances, standardizer)
    return building.build_model(cfg, cfg.method, domains)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_builds(choice, tmp_path):
    group = choice.partition("=")[0]
    if group in PARTS:
        assert isinstance(building.instantiate(compose_config(choice)[group]), PARTS[group])
        return
    if group not in MODEL_GROUPS:
        assert compose_config(choice)
        return
    required = {
        "network=keras_application": ["network.weights=null"],
        "method=dirt_t": [f"method.teacher={tmp_path / 'classifier.keras'}"],
    }
    if choice == "method=dirt_t":
        teacher = build("method=source_only", shape=(40, 40, 3), num_classes=4)
        teacher.classifier.save(tmp_path / "classifier.keras")
    overrides = choice, *required.get(choice, [])
    backbone = compose_config(*overrides).network.backbone["_target_"].rpartition(".")[2]
    nuisances = Nuisances({"site": 2}, {}, {}) if choice == "method=invariant" else None
    shape = SHAPES.get(backbone, (40, 40, 3))
    assert build(*overrides, shape=shape, num_classes=4, nuisances=nuisances).num_classes == 4


OPTIMIZERS = sorted(path.stem for path in (CONF / "optimizer").glob("*.yaml"))


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "bop"])
def test_every_optimizer_accepts_a_learning_rate(name):
    cfg = compose_config(f"optimizer={name}", "optimizer.learning_rate=0.5")
    optimizer = building.instantiate(cfg.optimizer)
    assert float(optimizer.learning_rate) == 0.5
    assert type(optimizer).__name__.lower() == name


INVALID_PARTS = [
    ("callbacks.metrics", ["callbacks.metrics=0"]),
    ("callbacks.foo", ["+callbacks.foo.bar=1"]),
    ("optimizer", ["optimizer={}", "optimizer._target_=keras.losses.MeanSquaredError"]),
    ("optimizer.learning_rate", ["optimizer.learning_rate.total_steps=-1"]),
    ("optimizer", ["optimizer.momentum=7"]),
    ("method.strength", ["schedule.high=-1"]),
    ("method", ["method._target_=dann.layers.GradientReversal"]),
    ("data", ["data=npz", "data.source=a.npz", "data.target=b.npz"]),
]


@pytest.mark.parametrize(("key", "overrides"), INVALID_PARTS, ids=str)
def test_invalid_part_is_named_by_its_key(key, overrides):
    cfg = compose_config(*overrides)
    with pytest.raises((ConfigError, InstantiationException)) as raised:  # noqa: PT012
        if key == "data":
            building.build_domains(cfg)
        model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
        building.build_optimizer(cfg, model)
        building.build_callbacks(cfg, model)
    assert explain_error(raised.value).startswith((f"{key}: ", f"{key} must name"))


def test_missing_backend_names_its_package():
    assert "`pip install jax`" in explain_error(ModuleNotFoundError("No module", name="jax"))


def test_default_is_dann_with_its_schedule_over_the_run():
    model = build("trainer.steps=70")
    assert type(model) is DANN
    high = compose_config().schedule.high
    assert model.reversal.schedule == GaninSchedule(total_steps=70, high=high)


@pytest.mark.parametrize(("shape", "rescales"), [((16, 16, 3), True), ((5,), False)])
@pytest.mark.parametrize("network", ["mlp", "binary_mlp"])
def test_perceptron_rescales_pixels_but_no_columns(network, shape, rescales):
    layers = build(f"network={network}", shape=shape).backbone.layers
    assert any(isinstance(layer, keras.layers.Rescaling) for layer in layers) == rescales


@pytest.mark.parametrize("network", ["cnn", "mlp"])
def test_network_does_not_rescale_standardized_images(network):
    model = build(f"network={network}", shape=(16, 16, 3), standardizer=Standardizer("each"))
    (layer,) = (x for x in model.backbone.layers if isinstance(x, keras.layers.Rescaling))
    assert (layer.scale, layer.offset) == (1, 0)


def test_paper_experiment_has_its_network_and_recipe():
    cfg = compose_config("experiment=mnist_to_mnist_m")
    optimizer = building.instantiate(cfg.optimizer)
    assert float(optimizer.learning_rate) == pytest.approx(0.03)
    assert optimizer.momentum == 0.9
    schedule = building.instantiate(cfg.schedule)
    assert schedule == GaninSchedule(total_steps=cfg.trainer.steps, gamma=10.0, high=1.0)
    model = build("experiment=mnist_to_mnist_m", shape=(28, 28, 3))
    assert model.count_params() == 205_893  # figure 4a, and two variables of the reversal


def test_regularizers_are_chosen_by_name():
    assert compose_config().regularizers == {}
    (mcc,) = build("regularizer=mcc", "regularizers.mcc.weight=0.5").regularizers
    assert (type(mcc), mcc.weight) == (MCC, 0.5)
    entropy, vat = build("regularizer=[entropy,vat]", "regularizers.vat.radius=3").regularizers
    assert (type(entropy), type(vat)) == (ConditionalEntropy, VirtualAdversarial)
    assert vat.radius == 3
    (mcc,) = build("method=source_only", "regularizer=mcc").regularizers
    assert type(mcc) is MCC
    cfg = compose_config("method=source_only", "regularizer=mcc")
    domains = minimal_domains((28, 28, 1), 10)
    assert building.build_model(cfg, cfg.method, domains, is_baseline=True).regularizers == []


def write_npz(folder, *names):
    """Writes files of 40 examples of two classes, and returns their paths."""
    rng, paths = np.random.default_rng(0), [folder / f"{name}.npz" for name in names]
    for path in paths:
        np.savez(path, x=rng.normal(size=(40, 5)), y=np.arange(40) % 2)
    return paths


APPLICATION = ("network=keras_application", "network.name=MobileNet")


def test_heads_of_an_application_learn_ten_times_faster():
    cfg = compose_config(*APPLICATION, "network.weights=null", "optimizer=adam")
    model = building.build_model(cfg, cfg.method, minimal_domains((32, 32, 3), 3))
    optimizer = building.build_optimizer(cfg, model)
    optimizer.build(model.trainable_variables)
    rates = {part.name: float(part.learning_rate) for part in optimizer.optimizers}
    assert rates == {"backbone": pytest.approx(0.001), "heads": pytest.approx(0.01)}


def test_several_sources_are_joined_and_passed_to_the_method(tmp_path, capsys):
    a, b, c = write_npz(tmp_path, "a", "b", "c")
    data = f"data.target={c}", f"data.sources=[{a},{b}]"
    cfg = compose_config("data=npz", *data, "network=mlp", "method=mdan")
    domains = building.build_domains(cfg)
    assert domains.num_sources == 2
    model = building.build_model(cfg, cfg.method, domains)
    assert (model.num_sources, model.domain_head.output_shape) == (2, (None, 2))
    assert set(np.unique(next(iter(domains.batches(8)))[0]["source_domain"])) == {0, 1}
    assert "method=dann" not in capsys.readouterr().err
    building.build_model(cfg, cfg.method, dataclasses.replace(domains, source_domain=None))
    assert "method=mdan with a single source trains like method=dann" in capsys.readouterr().err


@pytest.mark.parametrize(("batch_size", "steps_per_epoch"), [(8, 4), (64, 1), ("null", 1)])
def test_schedules_follow_the_number_of_epochs(batch_size, steps_per_epoch):
    cfg = compose_config(f"trainer.batch_size={batch_size}", "trainer.epochs=3")
    data = types.SimpleNamespace(source_train=(np.ones((35, 5)), np.arange(35) % 2))
    building.count_steps(cfg, data)
    assert cfg.trainer.steps_per_epoch == steps_per_epoch
    assert cfg.trainer.steps == 3 * steps_per_epoch
    assert building.instantiate(cfg.schedule).total_steps == 3 * steps_per_epoch


def test_text_instead_of_a_boolean_is_refused():
    with pytest.raises(ConfigError, match="true or false. Received: entropy_conditioning=no"):
        build("method=cdan", "method.entropy_conditioning=no")
    column = {"label": "no"}  # a reader accepts any text
    assert building.instantiate(column, ()) == column


def test_domains_are_sampled_as_configured(tmp_path):
    source, target = write_npz(tmp_path, "a", "b")
    data = "data=npz", f"data.source={source}", f"data.target={target}"
    domains = building.build_domains(compose_config(*data, "balanced=true", "target_labeled=3"))
    assert domains.balanced
    assert len(domains.target_labeled[1]) == 6
