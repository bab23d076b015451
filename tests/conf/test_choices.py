"""The choices of `conf/`, and experiments, some of them trained on small random data."""

import keras
import numpy as np
import pytest
import tensorflow_datasets as tfds
from omegaconf import OmegaConf
from support.configs import CONF, compose_config, minimal_domains

import dann
from dann import training
from dann.adaptation import METHODS, REGULARIZERS
from dann.config import building
from dann.data.builders.image_builder import ImageBuilder
from dann.optimizers import Bop
from dann.schedules import Constant

GROUPS = {"method": METHODS, "regularizer": REGULARIZERS}


def load_choice(group, name):
    """Returns a choice without the keys that it sets in other groups."""
    node = OmegaConf.load(CONF / group / f"{name}.yaml")
    return node.get(group, node)


@pytest.mark.parametrize("group", GROUPS)
def test_choices_and_registered_names_are_equal(group):
    files = {path.stem: load_choice(group, path.stem) for path in CONF.glob(f"{group}/*.yaml")}
    variants = {name for name, node in files.items() if "_target_" not in node} - {"none"}
    assert files.keys() - variants - {"none", "invariant"} == set(GROUPS[group])
    for name in variants:  # such as self_ensembling with other weights
        (base,) = files[name].defaults
        assert base in GROUPS[group], name


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, names in GROUPS.items() for name in names]
)
def test_choice_builds_the_registered_class(group, name):
    node = load_choice(group, name)
    assert getattr(dann, node["_target_"].removeprefix("dann.")) is GROUPS[group][name]
    variant = GROUPS[group].metadata[name].get("arguments", {})
    assert {key: node.get(key) for key in variant} == variant


METHOD_SCHEDULES = {"daln": "constant", "fdal": "fdal", "mcd": "mcd", "mdd": "mdd"}


@pytest.mark.parametrize("method", sorted({*METHODS} - {"dirt_t", "source_only", "target_only"}))
def test_final_strength_is_the_default_of_the_class(method):
    cfg = compose_config(f"method={method}")
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
    needs = {
        name: getattr(model, name) for name in METHODS.metadata[method].get("example_arguments", {})
    }
    plain = METHODS[method](model.backbone, 10, **needs)
    schedule = model.reversal.schedule
    top = schedule.value if isinstance(schedule, Constant) else schedule.high
    assert plain.reversal.initial_strength == top


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"dirt_t"}))
def test_method_has_a_replaceable_schedule(method):
    schedule = compose_config(f"schedule={METHOD_SCHEDULES.get(method, 'ganin')}").schedule
    assert compose_config(f"method={method}").schedule == schedule
    assert compose_config(f"method={method}", "schedule=warm_start").schedule.low == 0


@pytest.mark.parametrize(
    ("overrides", "rate"),
    [
        ([], 0.1),
        (["network=mlp"], 0.02),
        (["network.learning_rate=.05"], 0.05),
        (["optimizer.learning_rate.initial_learning_rate=.05"], 0.05),
        (["network=mlp", "optimizer.learning_rate.initial_learning_rate=.05"], 0.05),
    ],
)
def test_sgd_starts_at_the_rate_of_the_network(overrides, rate):
    assert compose_config(*overrides).optimizer.learning_rate.initial_learning_rate == rate


RECIPE = "optimizer", "schedule", "regularizers", "method"
PUBLISHED = "network", "schedule", "augmentation", "method", "selection"
TASKS = "mnist_to_mnist_m", "mnist_to_usps", "usps_to_mnist"
DIGITS = "trainer", "network", "optimizer", "augmentation", "method", "balanced", "schedule"


@pytest.mark.parametrize(
    ("name", "base", "groups"),
    [
        *((task, "recipe", RECIPE) for task in TASKS),
        *((task, "recipe", ["augmentation"]) for task in TASKS[1:]),
        *((f"digits_{task}", "digits_recipe", DIGITS) for task in TASKS),
        *((f"teacher_{task}", "teacher", [*DIGITS, "regularizers", "selection"]) for task in TASKS),
        *((f"{kind}_{task}", task, ["data"]) for task in TASKS for kind in ("digits", "teacher")),
        ("mnist_to_usps", "usps_to_mnist", ["trainer", "network", "selection"]),
        ("protocol_mnist_to_usps", "protocol_usps_to_mnist", PUBLISHED),
    ],
)
def test_experiments_share_their_settings(name, base, groups):
    plain = [OmegaConf.to_container(compose_config(f"experiment={x}")) for x in (name, base)]
    for group in groups:
        assert plain[0][group] == plain[1][group]


SHAPES = {"mnist": (28, 28, 1), "usps": (16, 16, 1)}


class TinyDigits(ImageBuilder):
    """Eight random images for each split, of the shape of the data set of the config's name."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in SHAPES]

    def _info(self):
        self.SHAPE = SHAPES[self.builder_config.name]
        return super()._info()

    def read_examples(self, split, dl_manager):
        rng = np.random.default_rng(int(split == "test"))
        for label in range(8):
            yield rng.integers(0, 256, SHAPES[self.builder_config.name], "uint8"), label


def train(tmp_path, *overrides):
    """Trains two steps like `scripts/train.py`, in this process."""
    short = ["trainer.steps=2", "trainer.batch_size=4", "callbacks=none"]
    paths = [f"paths.run_dir={tmp_path}/run", f"paths.cache_dir={tmp_path}/cache"]
    cfg = compose_config(*overrides, *short, *paths)
    domains = building.build_domains(cfg)
    model = building.build_model(cfg, cfg.method, domains)
    training.compile_model(model, building.build_optimizer(cfg, model), cfg.trainer)
    summary = training.train_run(cfg.paths.run_dir, domains, cfg.trainer, cfg.seed, model)
    return domains, summary


LENET = "network.backbone.filters=[4,6]"
RUNS = [
    ("mnist_to_usps", "method=dann", 0),
    pytest.param("usps_to_mnist", "method=target_only", 0, marks=pytest.mark.slow),
    ("mnist_binary_mlp", "network.backbone.hidden_units=[8,6]", 2),
    ("mnist_binary_lenet", LENET, 2),
    pytest.param("mnist_float_lenet", LENET, 0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "override", "binary_layers"), RUNS)
def test_experiments_with_digits_run_on_tiny_data(
    name, override, binary_layers, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        tfds, "builder_cls", lambda name: lambda config, **form: TinyDigits(config=name, **form)
    )
    domains, summary = train(tmp_path, f"experiment={name}", override)
    assert domains.input_shape == SHAPES["mnist"]
    assert (domains.num_classes, summary["steps"]) == (10, 2)
    assert (summary["target"] == summary["source"]) == ("_to_" not in name)
    assert (tmp_path / "run/oracle.csv").is_file() == ("_to_" in name)
    classifier = keras.models.load_model(tmp_path / "run/classifier.keras", safe_mode=True)
    layers = {id(layer): layer for layer in classifier._flatten_layers()}.values()
    assert sum(hasattr(layer, "binary_kernel") for layer in layers) == binary_layers


def build_optimizer(*overrides):
    cfg = compose_config("optimizer=bop", *overrides)
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 1), 10))
    return building.build_optimizer(cfg, model)


def test_bop_trains_only_binary_kernels():
    optimizer = build_optimizer("network=binary_lenet", "optimizer.optimizers.binary.threshold=0.5")
    bop, adam = optimizer.optimizers
    assert isinstance(bop, Bop)
    assert bop.threshold == 0.5
    assert [variable.name for variable in bop._trainable_variables] == ["kernel"] * 3
    assert len(adam._trainable_variables) > 10
    with pytest.raises(ValueError, match="'binary', which matches none of"):
        build_optimizer("network=cnn")
