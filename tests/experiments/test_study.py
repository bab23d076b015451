"""Which trials a study asks for, with a script that only pretends to train."""

import dataclasses
import json
import textwrap

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from support.sweep_table import runs_of

from dann.config.schema import OptimizeConfig, PathsConfig
from dann.experiments.study import Study

# Its score is highest at x = 3; `broken` fails, and x below 1 diverges.
SCRIPT = textwrap.dedent("""
    import json, pathlib, sys
    values = dict(part.split("=", 1) for part in sys.argv[1:] if "=" in part)
    if values["method"] == "broken":
        sys.exit("broken indeed")
    x = float(values["x"])
    score = -(x - 3) ** 2 if x > 1 else float("-inf")
    folder = pathlib.Path(values["hydra.run.dir"])
    (folder / "arguments.txt").write_text(" ".join(sys.argv[1:]))
    summary = {"oracle": values["method"] == "oracle",
               "selection/snd": score, "selection/info_max": 0.0,
               "source/accuracy": 0.5, "target/accuracy": x / 10}
    (folder / "summary.json").write_text(json.dumps(summary))
""")
SPACE = {"x": FloatDistribution(0.0, 9.0), "method": CategoricalDistribution(["dann", "broken"])}


@pytest.fixture
def study(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)

    def start(space=SPACE, scores=("snd", "info_max"), **changes):
        settings = OptimizeConfig(
            trials=4,
            objective="snd",
            overrides=["seed=5"],
            directory=str(tmp_path / "study"),
            paths=PathsConfig(data_dir="raw", cache_dir="cache"),
        )
        settings = dataclasses.replace(settings, **changes)
        return Study(settings, space, tmp_path / "train.py", scores)

    return start


def rows_of(tmp_path):
    return runs_of(tmp_path / "study/optimize.csv")


def test_trials_are_ranked_by_the_score_and_failed_ones_do_not_end_the_study(study, tmp_path):
    table = study(trials=12).run()
    rows = rows_of(tmp_path)
    assert len(rows) == 12
    ranked = [float(row["selection/snd"]) for row in rows if row["rank"]]
    assert ranked == sorted(ranked, reverse=True)
    broken = [row for row in rows if "method=broken" in row["overrides"]]
    assert 0 < len(broken) < 12
    assert {row["rank"] for row in broken} == {""}
    assert "broken indeed" in (tmp_path / "study" / broken[0]["run"] / "log.txt").read_text()
    best = max(float(row["target/accuracy"]) for row in rows if row["rank"])
    regret = 100 * (best - float(rows[0]["target/accuracy"]))
    assert f"regret of selection/snd: {regret:.1f} points" in table
    assert (tmp_path / "study/optimize.png").stat().st_size > 1000


def test_a_trial_runs_the_script_with_the_common_arguments_and_its_own(study, tmp_path):
    space = {"x": FloatDistribution(2.0, 3.0), "method": CategoricalDistribution(["dann"])}
    study(trials=1, space=space).run()
    asked = rows_of(tmp_path)[0]["overrides"].split()
    assert [part.partition("=")[0] for part in asked] == ["x", "method"]
    arguments = set((tmp_path / "study/trial_0/arguments.txt").read_text().split())
    assert {"seed=5", "compare=false", "paths.data_dir=raw", *asked} <= arguments


def test_the_search_finds_the_setting_with_the_highest_score(study):
    space = {"x": FloatDistribution(2.0, 9.0), "method": CategoricalDistribution(["dann"])}
    search = study(trials=16, space=space)
    search.run()
    assert abs(search.study.best_params["x"] - 3) < 0.5
    # The random trials that it begins with are not all there is.
    assert abs(search.study.trials[-1].params["x"] - 3) < 2


def test_a_study_continues_where_it_was_stopped(study, tmp_path):
    study(trials=2).run()
    first = [trial.params for trial in study(trials=2).study.trials]
    again = study(trials=4)
    again.study.ask(SPACE)  # begun, but its end was never told
    again = study(trials=4)
    again.run()
    assert [trial.params for trial in again.study.trials][:2] == first
    assert [trial.state.is_finished() for trial in again.study.trials] == [True] * 4
    assert again.study.trials[2].value is None
    assert len({trial.params["x"] for trial in again.study.trials}) == 4
    assert sorted(path.name for path in (tmp_path / "study").glob("trial_*")) == [
        "trial_0",
        "trial_1",
        "trial_3",
    ]


def test_a_run_that_had_ended_when_the_study_was_stopped_counts(study, tmp_path):
    search = study(trials=1)
    number = search.study.ask(SPACE).number
    (tmp_path / "study/trial_0").mkdir()
    summary = {
        "oracle": False,
        "selection/snd": 0.75,
        "source/accuracy": 1.0,
        "target/accuracy": 1.0,
    }
    (tmp_path / "study/trial_0/summary.json").write_text(json.dumps(summary))
    study(trials=1).run()
    assert (number, study(trials=1).study.best_value) == (0, 0.75)


def test_a_score_that_is_not_finite_is_a_failure(study):
    space = {"x": FloatDistribution(0.0, 0.5), "method": CategoricalDistribution(["dann"])}
    search = study(trials=1, space=space)
    search.run()
    assert search.study.trials[0].state.name == "FAIL"


@pytest.mark.parametrize("method", ["oracle", "broken"])
def test_an_oracle_and_a_leftover_of_an_earlier_study_count_as_failed(study, tmp_path, method):
    space = {"x": FloatDistribution(2.0, 3.0), "method": CategoricalDistribution([method])}
    search = study(trials=1, space=space)
    (tmp_path / "study/trial_0").mkdir()
    left = {"oracle": False, "selection/snd": 9.9, "source/accuracy": 1, "target/accuracy": 1}
    (tmp_path / "study/trial_0/summary.json").write_text(json.dumps(left))
    search.run()
    assert search.study.trials[0].state.name == "FAIL"


def test_without_any_score_there_is_no_table(study):
    space = {**SPACE, "method": CategoricalDistribution(["broken"])}
    assert study(trials=1, space=space).run() is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "target/accuracy"}, "an oracle's.*Received: objective='target/accuracy'"),
        ({"objective": "dev"}, r"one of 'snd', 'info_max'.*selection.scores=\[dev\].*='dev'"),
        ({"trials": 0}, "`trials`.*Received: trials=0"),
    ],
)
def test_a_wrong_setting_raises_an_error_and_writes_nothing(study, changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        study(**changes)
    assert not (tmp_path / "study").exists()


def test_the_largest_seed_goes_on(study):
    study(seed=2**32 - 1, trials=1).run()
    assert len(study(seed=2**32 - 1, trials=2).study.trials) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "info_max"},
        {"overrides": ["seed=6"]},
        {"space": {**SPACE, "x": FloatDistribution(0.0, 8.0)}},
    ],
)
def test_other_settings_in_the_same_directory_raise_an_error(study, changes):
    study()
    with pytest.raises(ValueError, match="holds a study with other settings; .* beside "):
        study(**changes)


def test_a_seed_that_is_refused_leaves_nothing(study, tmp_path):
    with pytest.raises(ValueError, match="`seed` must be an integer of at least 0.*seed=-1"):
        study(seed=-1)
    assert not (tmp_path / "study").exists()
