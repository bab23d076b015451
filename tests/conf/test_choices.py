"""The choices of `conf/method/`, `conf/regularizer/` and `conf/selection/`."""

import pytest
from omegaconf import OmegaConf
from support.configs import CONF, compose_config, minimal_domains

import dann
from dann.adaptation import METHODS, REGULARIZERS
from dann.config import building
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
