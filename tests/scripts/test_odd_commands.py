"""Odd commands of `scripts/train.py`: each ends in a result, or in one line with nothing left."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support.configs import CONF, composed

from dann.training.run import Run

VALUES = [
    *("0", "-1", "1", "2", "3.5", "nan", "inf", "-inf", "1e9", "1e-9", "99999999999999999999"),
    *("abc", "a:b", "''", "null", "true", "false", "[]", "[1,2]", "[a]", "{}", "{a:1}", "é"),
    *("'../x'", "'a b'", "'%s'", "'\\n'", "'${seed}'", "'${oc.env:HOME}'", "'${no.key}'"),
    *("{_target_:os.system}", "{_target_:keras.layers.Dense,units:3}"),
]
GROUPS = {
    folder.name: sorted(p.stem for p in folder.glob("*.yaml"))
    for folder in CONF.iterdir()
    if folder.is_dir()
}


def keys_of(node, prefix=""):
    for name, value in node.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{name}.")


def overrides():
    """One odd argument: a choice, a value, a key more or less, or no override at all."""
    config = OmegaConf.to_container(composed())
    keys = st.sampled_from([key for key in keys_of(config) if not key.startswith("paths")])
    values = st.sampled_from(VALUES)
    choices = [
        f"{group}={name}" for group, names in sorted(GROUPS.items()) for name in [*names, "x"]
    ]
    return st.one_of(
        st.sampled_from(choices),
        st.builds("{}={}".format, keys, values),
        st.builds("{}={}".format, keys, values),
        st.builds("+{}.more={}".format, keys, values),
        st.builds("~{}".format, keys),
        st.builds("+{}={}".format, st.text("abc", min_size=1, max_size=4), values),
        st.builds("{}={}".format, st.sampled_from(sorted(GROUPS)), values),
        st.sampled_from(["=", "seed", "seed==1", "+", "~", "++seed=3", "seed=", "@x=1"]),
    )


def check_ends_well(run_here, folder, arguments):
    """Runs all but the training: it composes, loads the data, builds and checks every object."""
    folder.mkdir()
    result = run_here("train.py", arguments, folder)
    if result.returncode:
        assert result.returncode == 1
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert list(folder.iterdir()) == []
    else:
        assert result.stderr == ""
    shutil.rmtree(folder)


@pytest.fixture
def untrained(monkeypatch):
    monkeypatch.setattr(Run, "train", lambda self: None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["trainer=null"],
        ["schedule=1e9"],
        ["~data"],
        ["+zzz.foo=1"],
        ["+network.more=1"],
        ["network.domain_head=0"],
        ["~network.domain_head._target_"],
        ["selection.samples='${oc.env:HOME}'"],
        ["callbacks=[1,2]"],
    ],
    ids=str,
)
def test_a_command_that_can_mean_nothing_is_refused_in_one_line(
    untrained, tmp_path, run_here, check_refused, prepared_digits, arguments
):
    check_refused(run_here("train.py", arguments, tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "count", [pytest.param(8, id="8"), pytest.param(500, id="500", marks=pytest.mark.slow)]
)
def test_random_overrides_end_in_a_result_or_in_one_line(
    untrained, tmp_path, run_here, prepared_digits, count
):
    # Every example is another command, so that nothing carries over; a command takes seconds.
    skipped = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=skipped,
    )
    @given(st.lists(overrides(), min_size=1, max_size=3))
    def check(arguments):
        check_ends_well(run_here, tmp_path / "here", arguments)

    check()
