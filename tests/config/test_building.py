"""Every choice of `conf/` builds, and what is built has what the config says."""

import types

import keras
import numpy as np
import pytest
from hydra.errors import InstantiationException
from support.configs import CONF, compose_config, minimal_domains

from dann.adaptation import DANN, MCC, ConditionalEntropy, SourceOnly, VirtualAdversarial
from dann.config import building
from dann.config.errors import ConfigError, explain_error
from dann.data.nuisances import Nuisances
from dann.gradients.estimators import EDE
from dann.layers import BinarySign
from dann.schedules import GaninSchedule, StrengthSchedule
from dann.training import Distribution, RunDirectory

CHOICES = [f"{path.parent.name}={path.stem}" for path in sorted(CONF.glob("*/*.yaml"))]
SHAPES = {"mlp_backbone": (10,), "time_series_backbone": (30, 2)}


PARTS = {"optimizer": keras.optimizers.Optimizer, "callbacks": dict, "schedule": StrengthSchedule}
OF_A_MODEL = ("network", "method", "augmentation", "regularizer", "experiment")


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_composes_and_builds_what_it_names(choice, tmp_path):
    group = choice.partition("=")[0]
    if group in PARTS:
        assert isinstance(building.instantiate(compose_config(choice)[group]), PARTS[group])
        return
    if group not in OF_A_MODEL:
        assert compose_config(choice)
        return
    needed = {
        "network=keras_application": ["network.weights=null"],
        "method=dirt_t": [f"method.teacher={tmp_path / 'classifier.keras'}"],
    }
    if choice == "method=dirt_t":
        first = compose_config("method=source_only")
        trained = building.build_model(first, first.method, minimal_domains((40, 40, 3), 4))
        trained.classifier.save(tmp_path / "classifier.keras")
    cfg = compose_config(choice, *needed.get(choice, []))
    backbone = cfg.network.backbone["_target_"].rpartition(".")[2]
    shape = SHAPES.get(backbone, (40, 40, 3))
    kinds = Nuisances({"site": 2}, {}, {}) if choice == "method=invariant" else None
    model = building.build_model(cfg, cfg.method, minimal_domains(shape, 4, kinds))
    assert model.num_classes == 4


OPTIMIZERS = sorted(path.stem for path in (CONF / "optimizer").glob("*.yaml"))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_single_optimizer_takes_a_learning_rate(name):
    if name == "bop":  # two optimizers, with a rate each
        rates = (
            "optimizer.optimizers.binary.learning_rate=0.5",
            "optimizer.default_optimizer.learning_rate=0.25",
        )
        found = building.instantiate(compose_config(f"optimizer={name}", *rates).optimizer)
        assert [float(part.learning_rate) for part in found.optimizers] == [0.5, 0.25]
        return
    cfg = compose_config(f"optimizer={name}", "optimizer.learning_rate=0.5")
    found = building.instantiate(cfg.optimizer)
    assert float(found.learning_rate) == 0.5
    assert type(found).__name__.lower() == name


def test_every_optimizer_of_keras_is_a_choice():
    classes = [vars(keras.optimizers)[name] for name in dir(keras.optimizers)]
    base = keras.optimizers.Optimizer
    optimizers = {c for c in classes if isinstance(c, type) and issubclass(c, base) and c != base}
    composed_of_others = {keras.optimizers.LossScaleOptimizer, keras.optimizers.MultiOptimizer}
    names = {each.__name__.lower() for each in optimizers - composed_of_others}
    assert names - {"schedulefreeadamw"} <= set(OPTIMIZERS)  # which needs a call after training


@pytest.mark.parametrize(
    ("key", "overrides"),
    [
        ("callbacks.metrics", ["callbacks.metrics=0"]),
        ("callbacks.foo", ["+callbacks.foo=a:b"]),
        ("callbacks.foo", ["+callbacks.foo.bar=1"]),
        ("optimizer", ["optimizer={}", "optimizer._target_=keras.losses.MeanSquaredError"]),
        ("optimizer.learning_rate", ["optimizer.learning_rate.total_steps=-1"]),
        ("optimizer", ["optimizer.momentum=7"]),
        ("network.backbone", ["network.backbone._partial_=false"]),
        ("method.strength", ["schedule.high=-1"]),
        ("method", ["method._target_=dann.layers.GradientReversal"]),
        ("data", ["data=npz", "data.source=a.npz", "data.target=b.npz"]),
    ],
)
def test_a_node_that_cannot_be_built_is_named_by_its_key(key, overrides):
    cfg = compose_config(*overrides)
    with pytest.raises((ConfigError, InstantiationException)) as raised:  # noqa: PT012
        if key == "data":
            building.build_domains(cfg)
        model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
        building.build_optimizer(cfg, model)
        building.build_callbacks(cfg, model)
    assert explain_error(raised.value).startswith((f"{key}: ", f"{key} must name"))


def test_a_callback_that_is_null_is_left_out():
    cfg = compose_config("callbacks.tensorboard=null")
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
    assert len(building.build_callbacks(cfg, model)) == len(cfg.callbacks) - 1


def test_the_default_callbacks_write_where_a_run_directory_looks():
    run, callbacks = RunDirectory("run"), compose_config().callbacks
    assert callbacks.metrics.filename == str(run.metrics_file)
    assert callbacks.tensorboard.log_dir == str(run.path / "tensorboard")


def test_the_default_is_dann_with_its_schedule_over_the_whole_run():
    cfg = compose_config("trainer.steps=70")
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
    assert type(model) is DANN
    assert model.reversal.schedule == GaninSchedule(total_steps=70, high=cfg.schedule.high)


def test_a_method_gets_only_the_parts_that_it_names():
    cfg = compose_config("method=source_only")
    assert (
        type(building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))) is SourceOnly
    )


@pytest.mark.parametrize(("shape", "rescales"), [((16, 16, 3), True), ((5,), False)])
@pytest.mark.parametrize("network", ["mlp", "binary_mlp"])
def test_a_perceptron_rescales_pixels_and_no_columns(network, shape, rescales):
    cfg = compose_config(f"network={network}")
    layers = building.build_model(cfg, cfg.method, minimal_domains(shape, 3)).backbone.layers
    assert any(isinstance(layer, keras.layers.Rescaling) for layer in layers) == rescales


def test_the_papers_experiment_has_its_network_and_the_shared_recipe():
    cfg = compose_config("experiment=mnist_to_mnist_m")
    optimizer = building.instantiate(cfg.optimizer)
    assert float(optimizer.learning_rate) == pytest.approx(0.03)
    assert optimizer.momentum == 0.9
    schedule = building.instantiate(cfg.schedule)
    assert schedule == GaninSchedule(total_steps=cfg.trainer.steps, gamma=10.0, high=1.0)
    model = building.build_model(cfg, cfg.method, minimal_domains((28, 28, 3), 10))
    assert model.count_params() == 205_893  # figure 4a, and the reversal's two


def test_an_estimator_that_sharpens_takes_the_length_of_the_run():
    given = "{_target_:dann.gradients.estimators.EDE,total_steps:${trainer.steps}}"
    estimator = f"network.backbone.input_estimator={given}"
    cfg = compose_config("network=binary_lenet", estimator, "trainer.steps=77")
    model = building.build_model(cfg, cfg.method, minimal_domains((28, 28, 3), 10))
    networks = model.backbone, model.label_head
    signs = [x for one in networks for x in one._flatten_layers() if isinstance(x, BinarySign)]
    lengths = [x.estimator.total_steps for x in signs if isinstance(x.estimator, EDE)]
    assert lengths == [77] * 5  # two of the backbone, three of the label head


def test_the_augmentation_of_the_config_reaches_the_model():
    cfg = compose_config("augmentation=affine")
    model = building.build_model(cfg, cfg.method, minimal_domains((28, 28, 1), 10))
    for domain in ("source", "target"):
        layers = model.augmentation[domain].layers
        assert [type(layer).__name__ for layer in layers] == [
            "RandomTranslation",
            "RandomRotation",
            "RandomZoom",
        ]


def test_regularizers_are_chosen_by_name_one_or_several():
    assert compose_config().regularizers == {}
    one = compose_config("regularizer=mcc", "regularizers.mcc.weight=0.5")
    model = building.build_model(one, one.method, minimal_domains((28, 28, 1), 10))
    assert [(type(r), r.weight) for r in model.regularizers] == [(MCC, 0.5)]
    several = compose_config("regularizer=[entropy,vat]", "regularizers.vat.radius=3")
    model = building.build_model(several, several.method, minimal_domains((28, 28, 1), 10))
    assert [type(r) for r in model.regularizers] == [ConditionalEntropy, VirtualAdversarial]
    assert model.regularizers[1].radius == 3


def test_the_baseline_beside_a_regularized_method_has_no_regularizer():
    cfg = compose_config("regularizer=mcc")
    baseline = {"_target_": "dann.SourceOnly", "_partial_": True}
    assert building.build_model(cfg, baseline, minimal_domains((28, 28, 1), 10)).regularizers == []


def test_a_regularizer_alone_joins_source_only():
    cfg = compose_config("method=source_only", "regularizer=mcc")
    (found,) = building.build_model(cfg, cfg.method, minimal_domains((28, 28, 1), 10)).regularizers
    assert isinstance(found, MCC)


def test_the_radius_of_the_smoothed_task_reaches_the_model():
    for overrides, radius in ((("method=sdat",), 0.05), (("+method.task_radius=0.02",), 0.02)):
        cfg = compose_config(*overrides)
        assert (
            building.build_model(cfg, cfg.method, minimal_domains((28, 28, 1), 10)).task_radius
            == radius
        )


def test_domains_are_sampled_as_the_config_says(tmp_path):
    cfg = compose_config("balanced=true", "target_labelled=2", f"paths.cache_dir={tmp_path}")
    domains = building.build_domains(cfg)
    assert domains.balanced
    assert len(domains.target_labelled[1]) == 20


APPLICATION = ("network=keras_application", "network.name=MobileNet")


def test_an_application_is_chosen_by_name_weights_and_what_trains(tmp_path):
    path = tmp_path / "own.weights.h5"
    shape = (32, 32, 3)
    own = keras.applications.MobileNet(weights=None, include_top=False, input_shape=shape)
    own.save_weights(path)
    cfg = compose_config(*APPLICATION, f"network.weights={path}", "network.trainable=[conv_pw_13]")
    model = building.build_model(cfg, cfg.method, minimal_domains(shape, 3))
    layers = {variable.path.split("/")[0] for variable in model.backbone.trainable_weights}
    assert layers == {"conv_pw_13", "conv_pw_13_bn"}
    for one, other in zip(model.backbone.get_weights(), own.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_heads_of_an_application_learn_at_ten_times_its_rate():
    cfg = compose_config(*APPLICATION, "network.weights=null", "optimizer=adam")
    model = building.build_model(cfg, cfg.method, minimal_domains((32, 32, 3), 3))
    optimizer = building.build_optimizer(cfg, model)
    optimizer.build(model.trainable_variables)
    rates = {one.name: float(one.learning_rate) for one in optimizer.optimizers}
    assert rates == {"backbone": pytest.approx(0.001), "heads": pytest.approx(0.01)}


@pytest.mark.parametrize("overrides", [(), ("+network.head_rate=1",)])
def test_without_a_head_rate_one_optimizer_serves_all(overrides):
    cfg = compose_config(*overrides)
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 3))
    assert type(building.build_optimizer(cfg, model)) is keras.optimizers.SGD


def test_several_sources_are_joined_and_passed_to_the_method(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    for name in ("a", "b", "c"):
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(40, 5)), y=labels)
    sources = ",".join(str(tmp_path / f"{name}.npz") for name in "ab")
    cfg = compose_config(
        "data=npz",
        f"data.target={tmp_path / 'c.npz'}",
        f"data.sources=[{sources}]",
        "network=mlp",
        "method=mdan",
    )
    domains = building.build_domains(cfg)
    assert domains.num_sources == 2
    model = building.build_model(cfg, cfg.method, domains)
    assert (model.num_sources, model.domain_head.output_shape) == (2, (None, 2))
    assert set(np.unique(next(iter(domains.batches(8)))[0]["source_domain"])) == {0, 1}


@pytest.mark.parametrize(("batch_size", "steps_per_epoch"), [(8, 4), (64, 1)])
def test_an_epoch_is_a_pass_over_the_source_that_schedules_follow(batch_size, steps_per_epoch):
    cfg = compose_config(f"trainer.batch_size={batch_size}", "trainer.epochs=3")
    data = types.SimpleNamespace(source_train=(np.ones((35, 5)), np.arange(35) % 2))
    building.count_steps(cfg, data)
    assert (cfg.trainer.steps_per_epoch, cfg.trainer.steps) == (
        steps_per_epoch,
        3 * steps_per_epoch,
    )
    assert building.instantiate(cfg.schedule).total_steps == 3 * steps_per_epoch


def test_steps_after_which_callbacks_act_are_collected():
    cfg = compose_config("callbacks=binary", "callbacks.flips.every_n_steps=4")
    assert building.get_step_intervals(cfg) == [4]
    cfg = compose_config("+callbacks.tensorboard.update_freq=batch")
    assert building.get_step_intervals(cfg) == [1]
    assert (
        building.get_step_intervals(compose_config("+callbacks.stop=word")) == []
    )  # refused later


def test_a_text_that_is_meant_as_a_switch_is_refused():
    cfg = compose_config("method=cdan", "method.entropy_conditioning=no")
    with pytest.raises(ConfigError, match="true or false. Received: entropy_conditioning"):
        building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
    column = {"label": "no"}  # a reader's text is none
    assert building.instantiate(column, ()) == column


def test_without_a_distribution_a_run_has_one_device():
    assert Distribution(**compose_config("~distribution").distribution).kind is None
