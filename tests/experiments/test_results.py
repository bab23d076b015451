import dataclasses
import json

import pytest

from dann.experiments.results import (
    Result,
    points_gained,
    read_results,
    result_of_run,
    write_results,
)

RUN = Result(
    experiment="a_to_b",
    method="dann",
    seed=0,
    settings="abc",
    domains="A → B",
    steps=4000,
    hardware="a machine, 2 cores",
    measures={
        "source/accuracy": 0.99,
        "target/accuracy": 0.7,
        "seconds": 100.0,
        "cpu_seconds": 190.5,
    },
)


def variant(measures=None, **changes):
    return dataclasses.replace(RUN, measures={**RUN.measures, **(measures or {})}, **changes)


def test_results_come_back_from_their_file_and_the_latest_of_a_run_stays(tmp_path):
    file = tmp_path / "deep" / "results.csv"
    passed = variant({"bar/steps": 500.0, "bar/cpu_seconds": 20.25}, seed=1)
    better = variant({"target/accuracy": 0.75})
    write_results([passed, RUN, better], file)
    assert read_results(file) == [better, passed]
    assert [path.name for path in file.parent.iterdir()] == ["results.csv"]


def test_the_file_has_a_row_for_each_measure(tmp_path):
    file = tmp_path / "results.csv"
    write_results([variant({"chosen/a_new_score": 0.5})], file)
    head, *rows = file.read_text().splitlines()
    assert head == "experiment,method,seed,settings,domains,steps,hardware,measure,value"
    assert len(rows) == 5
    run = 'a_to_b,dann,0,abc,A → B,4000,"a machine, 2 cores",'
    assert {row.removeprefix(run) for row in rows} == {
        "source/accuracy,0.99",
        "target/accuracy,0.7",
        "seconds,100.0",
        "cpu_seconds,190.5",
        "chosen/a_new_score,0.5",
    }


WIDE = """\
experiment,method,seed,settings,domains,steps,source_accuracy,target_accuracy,seconds,cpu_seconds,\
steps_to_bar,cpu_seconds_to_bar,hardware,oracle_best,at_snd
a_to_b,dann,0,abc,A → B,4000,0.99,0.7,100.0,190.5,,,"a machine, 2 cores",,
a_to_b,dann,1,abc,A → B,4000,0.99,0.7,100.0,190.5,500,20.25,"a machine, 2 cores",0.8,0.6
"""


def test_a_file_of_an_earlier_version_with_one_row_a_run_is_read(tmp_path):
    (tmp_path / "results.csv").write_text(WIDE)
    more = {"bar/steps": 500, "bar/cpu_seconds": 20.25, "oracle/best": 0.8, "chosen/snd": 0.6}
    assert read_results(tmp_path / "results.csv") == [RUN, variant(more, seed=1)]


def test_there_are_no_results_where_there_is_no_file(tmp_path):
    assert read_results(tmp_path / "results.csv") == []


@pytest.mark.parametrize(
    "content", ["a,b\n1,2\n", "", WIDE.replace("at_snd", "notes"), WIDE.replace("seed", "sead")]
)
def test_a_file_of_something_else_raises_an_error(content, tmp_path):
    (tmp_path / "results.csv").write_text(content)
    columns = content.partition("\n")[0].split(",") if content else []
    with pytest.raises(ValueError, match="must have the columns.*Received") as caught:
        read_results(tmp_path / "results.csv")
    assert str(caught.value).endswith(f"Received: {columns}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dann,0", "dann,zero"),
        (",0.7\n", ",high\n"),
        (",0.7\n", ",nan\n"),
        ("b,dann,0", "b,,0"),
        ("target/accuracy,0.7", ",0.7"),
    ],
)
def test_a_row_without_its_numbers_raises_an_error(old, new, tmp_path):
    file = tmp_path / "results.csv"
    write_results([RUN], file)
    file.write_text(file.read_text().replace(old, new))
    found = new.strip().split(",")[-1]
    with pytest.raises(ValueError, match=f"results.csv.*Received in line .*'{found}'"):
        read_results(file)


@pytest.mark.parametrize(
    ("old", "new"), [(",abc,", ",abd,"), (",4000,", ",4001,"), ("2 cores", "4 cores")]
)
def test_rows_of_one_run_that_differ_in_more_than_a_measure_raise_an_error(old, new, tmp_path):
    file = tmp_path / "results.csv"
    write_results([RUN], file)
    *lines, last = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, last.replace(old, new)]))
    with pytest.raises(
        ValueError, match=r"the same \['settings', .*Received in line 5: .*, and be"
    ):
        read_results(file)


def test_two_values_of_one_measure_raise_an_error(tmp_path):
    file = tmp_path / "results.csv"
    write_results([RUN], file)
    *lines, last = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, last, last.replace("190.5", "191.5")]))
    with pytest.raises(ValueError, match="each measure once. Received in line 6"):
        read_results(file)


def test_points_are_gained_over_the_runs_of_the_same_seeds():
    ours = [variant({"target/accuracy": 0.75}, seed=seed) for seed in (3, 1, 2)]
    others = [variant({"target/accuracy": seed / 8}, seed=seed) for seed in (0, 1, 3)]
    assert points_gained(ours, others) == [37.5, 62.5]


@pytest.mark.parametrize(
    ("method", "is_oracle"), [("target_only", True), ("target_only a=1", True), ("dann", False)]
)
def test_a_run_that_trained_on_the_targets_labels_is_an_oracle(method, is_oracle):
    assert variant(method=method).is_oracle == is_oracle


SUMMARY = {
    "method": "DANN",
    "source": "A",
    "target": "B",
    "seed": 0,
    "steps": 4000,
    "source/accuracy": 0.99,
    "target/accuracy": 0.7,
    "seconds": 100.0,
    "cpu_seconds": 190.5,
    "hardware": "a machine, 2 cores",
}


def test_a_run_directory_becomes_a_result(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc", bar=0.6) == RUN
    curve = "step,cpu_seconds,target/accuracy\n500,20.5,0.58\n1000,41.0,0.61\n1500,60.0,0.59\n"
    (tmp_path / "oracle.csv").write_text(curve)
    measures = result_of_run(tmp_path, "a_to_b", "dann", "abc", bar=0.6).measures
    assert (measures["bar/steps"], measures["bar/cpu_seconds"]) == (1000, 41.0)
    for bar in (0.7, None):
        assert "bar/steps" not in result_of_run(tmp_path, "a_to_b", "dann", "abc", bar).measures
    (tmp_path / "oracle.csv").write_text("step,cpu_seconds,target/accuracy\n")
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc", bar=0.6) == RUN


@pytest.mark.parametrize(
    ("backend", "told"), [("tensorflow", "a machine, 2 cores"), ("jax", "a machine, 2 cores, jax")]
)
def test_the_hardware_tells_a_backend_that_is_not_the_default(backend, told, tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps({**SUMMARY, "backend": backend}))
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc").hardware == told


def test_the_scores_of_the_final_weights_are_read_where_they_are_finite(tmp_path):
    scores = {"selection/info_max": 1.25, "selection/snd": -float("inf")}
    (tmp_path / "summary.json").write_text(json.dumps({**SUMMARY, **scores}))
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc") == variant({"score/info_max": 1.25})


def test_the_choices_of_the_scores_are_read_where_the_run_has_them(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    metrics = "epoch,selection/info_max,selection/dev\n0,1.5,0.1\n1,1.75,0.2\n2,1.25,0.3\n"
    (tmp_path / "metrics.csv").write_text(metrics)
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc") == RUN
    curve = "step,cpu_seconds,target/accuracy\n500,20.5,0.75\n1000,41.0,0.5\n1500,60.0,0.25\n"
    (tmp_path / "oracle.csv").write_text(curve)
    measures = {"oracle/best": 0.75, "chosen/info_max": 0.5, "chosen/dev": 0.25}
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc") == variant(measures)
