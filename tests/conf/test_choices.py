"""The choices of `conf/method/`, `conf/regularizer/` and `conf/selection/`."""

import pytest
from omegaconf import OmegaConf
from support.configs import CONF, compose_config, minimal_domains

import dann
from dann.adaptation import METHODS, REGULARIZERS
from dann.config import building
from dann.schedules import Constant, GaninSchedule, WarmStart
from dann.selection import SCORES, resolve_scores

GROUPS = {"method": METHODS, "regularizer": REGULARIZERS}
PAPERS = WarmStart(low=0.0, high=0.1, alpha=1.0, steps=1000)


@pytest.mark.parametrize(
    ("overrides", "schedule"),
    [
        (["schedule=ganin", "schedule.high=1", "trainer.steps=70"], GaninSchedule(70)),
        (["schedule=constant", "schedule.value=0.5"], Constant(0.5)),
        (["schedule.high=0.3"], WarmStart(high=0.3)),
        (["experiment=recipe", "trainer.steps=70"], GaninSchedule(70)),
        (["schedule=mdd"], PAPERS),
    ],
)
def test_the_command_line_and_an_experiment_choose_another_schedule(overrides, schedule):
    cfg = compose_config("method=mdd", *overrides)
    assert building.instantiate(cfg.schedule) == schedule
    assert cfg.method.strength == cfg.schedule


def loaded(group, name):
    """A choice; in a file that also sets keys of other groups, its part."""
    node = OmegaConf.load(CONF / group / f"{name}.yaml")
    return node.get(group, node)


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_is_registered_and_everything_registered_is_a_choice(group):
    files = {path.stem: loaded(group, path.stem) for path in CONF.glob(f"{group}/*.yaml")}
    variants = {name for name, node in files.items() if "_target_" not in node} - {"none"}
    own = {"method": {"invariant"}}.get(group, set())  # trains on no pairs
    assert files.keys() - variants - {"none"} - own == set(GROUPS[group])
    for name in variants:  # such as self_ensembling with other weights
        (base,) = files[name].defaults
        assert base in GROUPS[group], name


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, things in GROUPS.items() for name in things]
)
def test_a_choice_builds_the_object_registered_under_its_name(group, name):
    node = loaded(group, name)
    assert getattr(dann, node["_target_"].removeprefix("dann.")) is GROUPS[group][name]
    variant = GROUPS[group].facts[name].get("arguments", {})
    assert {key: node.get(key) for key in variant} == variant


OWN_SCHEDULE = {"daln": "constant", "fdal": "fdal", "mcd": "mcd", "mdd": "mdd"}


@pytest.mark.parametrize("method", sorted({*METHODS} - {"dirt_t", "source_only", "target_only"}))
def test_the_script_rises_to_the_strength_of_the_class(method):
    cfg = compose_config(f"method={method}")
    model = building.build_model(cfg, cfg.method, minimal_domains((16, 16, 3), 10))
    needs = {name: getattr(model, name) for name in METHODS.facts[method].get("needs", {})}
    plain = METHODS[method](model.backbone, 10, **needs)
    schedule = model.reversal.schedule
    top = schedule.value if isinstance(schedule, Constant) else schedule.high
    assert plain.reversal.initial_strength == top


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"dirt_t"}))
def test_a_method_has_its_own_schedule_or_that_of_the_default(method):
    schedule = compose_config(f"schedule={OWN_SCHEDULE.get(method, 'ganin')}").schedule
    assert compose_config(f"method={method}").schedule == schedule
    assert compose_config(f"method={method}", "schedule=warm_start").schedule.low == 0


def test_all_computes_every_score():
    assert resolve_scores(compose_config("selection=all").selection.scores) == dict(SCORES)


def test_the_default_ranks_by_agreement_and_computes_what_ranks_where_that_cannot():
    selection = compose_config().selection
    assert selection.rank_by == "agreement"
    assert "info_max" in resolve_scores(selection.scores)
    assert compose_config("selection.scores=[snd,dev]").selection.scores == ["snd", "dev"]


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
def test_sgd_begins_at_the_rate_of_the_network_unless_told_another(overrides, rate):
    assert compose_config(*overrides).optimizer.learning_rate.initial_learning_rate == rate
