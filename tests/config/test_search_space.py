"""Search spaces, in Hydra's words for sweeps."""

import pytest
from hydra import initialize_config_dir
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from support.configs import CONF, composed

from dann import config


def test_each_line_is_a_distribution():
    lines = [
        "a.b=interval(0,1)",
        "c=tag(log,interval(1e-3,.1))",
        "d=int(interval(1,8))",
        "e=tag(log,int(interval(1,8)))",
        "f=choice(dann,1,[2,3])",
        "+g=x,y",
    ]
    assert config.search_space(lines) == {
        "a.b": FloatDistribution(0.0, 1.0),
        "c": FloatDistribution(0.001, 0.1, log=True),
        "d": IntDistribution(1, 8),
        "e": IntDistribution(1, 8, log=True),
        "f": CategoricalDistribution(["dann", "1", "[2,3]"]),
        "+g": CategoricalDistribution(["x", "y"]),
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "must be a key and what it may be.*Received: no lines"),
        (["a=1"], "one value belongs into `overrides`. Received: a=1"),
        (["a=(1,2"], r"Received: a=\(1,2"),
        (["a=range(1,5)"], r"Received: a=range\(1,5\)"),
        (["a=glob(*)"], r"Received: a=glob"),
        (["a=interval(2,1)"], "from low to high.*Received: a=interval"),
        (["a=tag(log,interval(0,1))"], "above 0 on a logarithmic scale"),
        (["a=1,2", "a=interval(0,1)"], "each key once. Received: a twice"),
    ],
)
def test_what_is_no_search_space_is_refused(lines, message):
    with pytest.raises(config.ConfigError, match=message):
        config.search_space(lines)


def test_the_default_space_is_one_that_the_training_script_takes():
    cfg = composed(script="optimize")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        space = config.search_space(cfg.space)
        assert cfg.objective in config.scores_of_trials(cfg.overrides, space)


@pytest.mark.parametrize("line", ["schedule.hihg=interval(0,1)", "method=dann,cdann"])
def test_keys_and_options_that_the_training_script_does_not_know_are_refused(line):
    with (
        initialize_config_dir(str(CONF), version_base="1.3"),
        pytest.raises(config.ConfigError, match="A trial would be refused: .*(hihg|cdann)"),
    ):
        config.scores_of_trials([], config.search_space([line]))
