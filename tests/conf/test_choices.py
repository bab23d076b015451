"""The choices of `conf/`: data, methods, regularizers and experiments."""

import inspect

import pytest
from omegaconf import OmegaConf
from support.configs import CONF, compose_config, minimal_domains

import dann
from dann.adaptation.adversarial_model import METHODS
from dann.adaptation.regularizers.regularizer import REGULARIZERS
from dann.config import building
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


CHOICES = [(group, name) for group, names in GROUPS.items() for name in names]


@pytest.mark.parametrize(("group", "name"), CHOICES)
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
    names = METHODS.metadata[method].get("example_arguments", {})
    needs = {name: getattr(model, name) for name in names}
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


@pytest.mark.parametrize(
    ("name", "binary_layers"),
    [("mnist_binary_mlp", 3), ("mnist_binary_lenet", 2), ("mnist_float_lenet", 0)],
)
def test_binary_experiments_have_binary_layers(name, binary_layers):
    cfg = compose_config(f"experiment={name}")
    model = building.build_model(cfg, cfg.method, minimal_domains((28, 28, 1), 10))
    layers = [*model.backbone.layers, *model.label_head.layers]
    assert sum(hasattr(layer, "binary_kernel") for layer in layers) == binary_layers


DATA = [f"data={path.stem}" for path in sorted(CONF.glob("data/*.yaml"))]
EXPERIMENTS = [f"experiment={path.stem}" for path in sorted(CONF.glob("experiment/*.yaml"))]


@pytest.mark.parametrize("choice", [*DATA, *EXPERIMENTS])
def test_data_settings_are_arguments_of_the_reader(choice):
    node = OmegaConf.to_container(compose_config(choice).data, resolve=False)
    reader = getattr(dann.data, node.pop("_target_").removeprefix("dann.data."))
    parameters = inspect.signature(reader).parameters.keys()
    if "options" in parameters:
        parameters |= inspect.signature(dann.data.arrays).parameters.keys()
    assert node.keys() - {"sources", "path", "standardize"} <= parameters


def test_every_reader_has_a_config_that_shows_its_command():
    texts = [path.read_text() for path in CONF.glob("data/*.yaml")]
    nodes = [OmegaConf.create(text) for text in texts]
    assert {node["_target_"] for node in nodes} == building.READER_NAMES
    for text, node in zip(texts, nodes, strict=True):
        required = [f"data.{key}=" for key in node if OmegaConf.is_missing(node, key)]
        assert all(key in text for key in required)


def build_optimizer(*overrides):
    cfg = compose_config(*overrides)
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 1), 10))
    return building.build_optimizer(cfg, model)


def test_bop_trains_only_binary_kernels():
    threshold = "optimizer.optimizers.binary.threshold=0.5"
    optimizer = build_optimizer("optimizer=bop", "network=binary_lenet", threshold)
    bop, adam = optimizer.optimizers
    assert isinstance(bop, Bop)
    assert bop.threshold == 0.5
    assert [variable.name for variable in bop._trainable_variables] == ["kernel"] * 3
    assert len(adam._trainable_variables) > 10
    with pytest.raises(ValueError, match="'binary', which matches none of"):
        build_optimizer("optimizer=bop", "network=cnn")


def test_momentum_of_adam_has_a_key():
    assert build_optimizer("optimizer=adam").beta_1 == 0.5
    assert build_optimizer("optimizer=adam", "optimizer.beta_1=0.9").beta_1 == 0.9
