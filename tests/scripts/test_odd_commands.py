"""Odd commands of `scripts/train.py`: each ends in a result, or in one line with nothing left."""

import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
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


def end_of(run_here, folder, arguments):
    """Runs all but the training, and returns how it ended; "badly" with what it said."""
    folder.mkdir()
    try:
        result = run_here("train.py", arguments, folder)
    except Exception as error:  # a user would see a traceback
        return f"badly: {error!r}"
    else:
        left = [path.name for path in folder.iterdir()]
    finally:
        shutil.rmtree(folder)
    lines = result.stderr.splitlines()
    if result.returncode == 1 and len(lines) == 1 and lines[0].startswith("error: ") and not left:
        return "refused"
    if result.returncode == 0 and not lines:
        return "built"
    return f"badly: {result.returncode}, {left}, {result.stderr}"


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
    ends = {}

    # A command takes seconds, so that a smaller one that fails too is not looked for.
    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.lists(overrides(), min_size=1, max_size=3))
    def draw(arguments):
        ends[tuple(arguments)] = end_of(run_here, tmp_path / "here", arguments)

    draw()
    found = list(ends.values())
    print(f"{len(found)} commands: {found.count('refused')} refused, {found.count('built')} built")
    assert {command: end for command, end in ends.items() if end.startswith("badly")} == {}
    assert found.count("refused") >= len(found) / 4
