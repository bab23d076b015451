"""Planned runs, with a script that only pretends to train."""

import dataclasses
import shlex
import textwrap

import pandas
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from dann.config.schema import PathsConfig, ReproduceConfig
from dann.experiments.reproduction import COLUMNS, collect_results, plan_runs, train_runs
from dann.training.overrides import format_argument

SETTINGS = ReproduceConfig(
    experiments=["a_to_b"],
    methods=["dann"],
    seeds=[0, 1],
    overrides=[],
    runs_dir="runs",
    results="results.csv",
    published={},
    paths=PathsConfig(cache_dir="cache"),
)
SCRIPT = textwrap.dedent("""
    import json, os, pathlib, sys
    values = dict(part.split("=", 1) for part in sys.argv[1:])
    print(" ".join(sys.argv[1:]), os.environ.get("OMP_NUM_THREADS"))
    if (values["method"], values["seed"]) == ("broken", "0"):
        sys.exit("broken at seed 0")
    folder = pathlib.Path(json.loads(values["hydra.run.dir"]))  # in quotes, for Hydra
    seed = int(values["seed"])
    summary = {"seed": seed, "source": "A", "target": "B", "steps": 3, "seconds": 1.0,
               "cpu_seconds": 90.0, "hardware": "x", "source/accuracy": 0.5, "oracle": False,
               "target/accuracy": 0.25 + seed / 4, "selection/bnm": float("nan"),
               "selection/info_max": seed + 0.5}
    (folder / "summary.json").write_text(json.dumps(summary))
""")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def plan(**changes):
    return plan_runs(dataclasses.replace(SETTINGS, **changes))


def train(runs, folder, **kwargs):
    return train_runs(runs, folder / "train.py", **kwargs)


def test_plan_has_one_run_per_experiment_method_and_seed():
    runs = plan(experiments=["a", "b"], methods=["dann", "mdd schedule=mdd"])
    assert len(runs) == 8
    last = runs[-1]
    assert (last.experiment, last.method, last.seed) == ("b", "mdd schedule=mdd", 1)
    arguments = "experiment=b method=mdd schedule=mdd compare=false seed=1"
    assert " ".join(last.arguments) == arguments
    assert str(last.directory) == "runs/b/mdd_schedule_mdd/seed_1"


def test_directories_differ_with_the_arguments():
    long = ["x=" + "y" * 200]
    runs = plan(overrides=long) + plan(overrides=[*long, "z=1"]) + plan()
    paths = {str(run.directory) for run in runs}
    assert len(paths) == len(runs) == 6
    assert all(len(part) < 120 for path in paths for part in path.split("/"))


@pytest.mark.parametrize("shared", ["regularizer=mcc", "regularizers.mcc.weight=2"])
def test_baselines_run_without_regularizers(shared):
    methods = ["source_only", "target_only regularizer=vat", "dann"]
    runs = plan(methods=methods, seeds=[0], overrides=[shared, "balanced=true"])
    arguments = [" ".join(run.arguments).removesuffix(" seed=0") for run in runs]
    assert arguments == [
        "experiment=a_to_b method=source_only regularizer=none compare=false balanced=true",
        "experiment=a_to_b method=target_only regularizer=vat compare=false "
        f"{shared} balanced=true",
        f"experiment=a_to_b method=dann compare=false {shared} balanced=true",
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_failed_run_does_not_stop_other_runs(jobs, folder):
    runs = plan(methods=["broken", "dann"])
    assert train(runs, folder, jobs=jobs, shared=["paths.cache_dir=c"]) == runs[:1]
    assert [run.directory.is_finished() for run in runs] == [False, True, True, True]
    log = runs[0].directory.log_file.read_text()
    assert "broken at seed 0" in log
    assert 'paths.cache_dir=c hydra.run.dir="runs/a_to_b/broken/seed_0" resume=true' in log


def test_results_become_a_table(folder):
    runs = plan(seeds=[0, 1, 2])
    train(runs, folder)
    for run, classes in zip(runs, ([0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]), strict=True):
        table = {"split": "train", "example": range(4), "class": classes, "probability": 1.0}
        run.directory.write_predictions(pandas.DataFrame(table))
    results = collect_results(runs)
    assert list(results.columns[: len(COLUMNS)]) == COLUMNS
    assert results.iloc[0].drop(COLUMNS).to_dict() == {
        "source/accuracy": 0.5,
        "target/accuracy": 0.25,
        "seconds": 1.0,
        "cpu_seconds": 90.0,
        "selection/info_max": 0.5,
        "selection/agreement": 0.5,
    }


@pytest.mark.parametrize(
    "path", ["a.b/c-1", "ö, (x)=y", 'it\'s "q"', "a\\", 'a\\"b', "[1] {2}", "${x}"]
)
def test_quoted_path_is_read_by_shell_and_hydra(path):
    (word,) = shlex.split(format_argument("run", path))
    override = OverridesParser.create().parse_override(word)
    assert OmegaConf.create({"run": override.value()}).run == path
