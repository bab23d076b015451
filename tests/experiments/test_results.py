import dataclasses
import json

import pytest

from dann.experiments.results import CHOICES, Result, read_results, result_of_run, write_results
from dann.experiments.results_page import results_page

RUN = Result(
    experiment="a_to_b",
    method="dann",
    seed=0,
    settings="abc",
    domains="A → B",
    steps=4000,
    source_accuracy=0.99,
    target_accuracy=0.7,
    seconds=100.0,
    cpu_seconds=190.5,
    steps_to_bar=None,
    cpu_seconds_to_bar=None,
    hardware="a machine, 2 cores",
)


def variant(**changes):
    return dataclasses.replace(RUN, **changes)


def test_results_come_back_from_their_file_and_the_latest_of_a_run_stays(tmp_path):
    file = tmp_path / "deep" / "results.csv"
    passed = variant(seed=1, steps_to_bar=500, cpu_seconds_to_bar=20.25)
    write_results([passed, RUN, variant(target_accuracy=0.75)], file)
    assert read_results(file) == [variant(target_accuracy=0.75), passed]
    assert [path.name for path in file.parent.iterdir()] == ["results.csv"]


def test_there_are_no_results_where_there_is_no_file(tmp_path):
    assert read_results(tmp_path / "results.csv") == []


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"must have the columns .*Received: \['a', 'b'\]"):
        read_results(tmp_path / "results.csv")


def page_rows(results, bars=None, published=None):
    page = results_page(results, bars or {}, published or {})
    table = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line] for line in table]
    return page, [dict(zip(header, row, strict=True)) for row in rows]


def test_the_page_tells_mean_spread_and_share_of_the_gap():
    results = [
        *[variant(seed=s, target_accuracy=a) for s, a in enumerate((0.7, 0.8, 0.9))],
        *[variant(method="source_only", seed=s, target_accuracy=0.5) for s in range(3)],
        *[variant(method="target_only", seed=s, target_accuracy=1.0) for s in range(3)],
    ]
    page, rows = page_rows(results, published={"a_to_b": {"dann": 0.7666}})
    assert [row["method"] for row in rows] == ["source only", "DANN", "train on target (oracle)"]
    assert rows[1]["target accuracy"] == "0.8000 ± 0.1000"
    assert rows[1]["gap closed"] == "60.0%"  # (.8 - .5) / (1 - .5)
    assert rows[1]["n"] == "3"
    assert rows[1]["each seed"] == "0: 0.7000 1: 0.8000 2: 0.9000"
    assert (rows[1]["steps"], rows[1]["CPU seconds"], rows[1]["published"]) == (
        "4,000",
        "190",
        "0.7666",
    )
    assert rows[0]["gap closed"] == rows[2]["gap closed"] == rows[0]["published"] == ""
    assert "## A → B" in page
    assert "experiment=a_to_b" in page
    assert "Hardware: a machine, 2 cores." in page


def test_a_second_stage_is_after_the_row_that_taught_it():
    first = variant(method="dann regularizer=[entropy,vat]", settings="abcdef")
    path = "method.teacher=runs/a_to_b/dann/{}/seed_${{seed}} method.radius=1"
    taught = [
        variant(method=f"dirt_t {path.format(digest)}", settings=digest[::-1])
        for digest in ("abcdef", "123456")
    ]
    _, rows = page_rows([first, *taught])
    assert [row["method"] for row in rows] == [
        "DANN, regularizer=[entropy,vat]",
        "DIRT-T, method.teacher=runs/a_to_b/dann/123456/seed_${seed}, method.radius=1",
        "DIRT-T, after DANN, regularizer=[entropy,vat], method.radius=1",
    ]


@pytest.mark.parametrize("others", [["source_only"], ["source_only", "target_only"]])
def test_without_a_gap_none_is_told(others):
    _, rows = page_rows([RUN, *(variant(method=other) for other in others)])
    assert {row["gap closed"] for row in rows} == {""}


def test_a_gap_within_the_spread_is_none():
    ends = [("source_only", (0.5, 0.6)), ("target_only", (0.58, 0.6))]
    results = [
        RUN,
        *(variant(method=m, seed=s, target_accuracy=a) for m, of in ends for s, a in enumerate(of)),
    ]
    assert {row["gap closed"] for row in page_rows(results)[1]} == {""}


def test_the_page_tells_when_the_bar_was_first_passed():
    results = [RUN, variant(seed=1, steps_to_bar=1500, cpu_seconds_to_bar=60.4)]
    _, [row] = page_rows(results, bars={"a_to_b": 0.7666})
    assert row["first 0.7666"] == "0: never; 1: 1,500 steps, 60 s"


def test_experiments_on_the_same_domains_are_told_apart():
    others = variant(experiment="small_a_to_b"), variant(experiment="c", domains="C → D")
    page = results_page([RUN, *others], {}, {})
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    assert titles == ["## A → B (a_to_b)", "## A → B (small_a_to_b)", "## C → D"]


def test_the_page_tells_its_table_its_arguments_and_what_is_noted():
    notes = {"a_to_b": "The bar is missed.", "other": "Not here."}
    page = results_page([RUN], {}, {}, notes, "short.csv", ["trainer.steps=9"])
    assert "`python scripts/reproduce.py 'overrides=[trainer.steps=9]'`" in page
    assert "[short.csv](short.csv)" in page
    assert "`python scripts/train.py experiment=a_to_b method=... trainer.steps=9`" in page
    assert page.endswith("Hardware: a machine, 2 cores.\n\nThe bar is missed.\n")
    assert "Not here" not in page


def test_the_page_tells_what_each_score_would_have_chosen():
    chosen = dict.fromkeys(CHOICES.values(), 0.6) | {"at_snd": 0.4, "oracle_best": 0.75}
    results = [
        *[variant(seed=0, **chosen), variant(seed=1, **{**chosen, "at_snd": 0.5})],
        *[variant(method="cdan_e", seed=0, **chosen), variant(method="cdan_e", seed=1)],
    ]
    page = results_page(results, {}, {})
    header, _, *rows = [line for line in page.splitlines() if "|" in line][4:]
    names = "source_accuracy | entropy | info_max | snd | bnm | mcc"
    assert header == f"| epoch chosen by | last | {names} | best (oracle) |"
    numbers = "0.7000 | 0.6000 | 0.6000 | 0.6000 | 0.4500 | 0.6000 | 0.6000 | 0.7500"
    assert rows == [f"| DANN | {numbers} |"]  # not all runs of CDAN+E have them


def test_choices_of_the_scores_are_read_where_the_run_has_them(tmp_path):
    summary = dict.fromkeys(["seed", "steps", "seconds", "cpu_seconds", "hardware"], 1)
    rest = {"source": "A", "target": "B", "source/accuracy": 1.0, "target/accuracy": 0.5}
    (tmp_path / "summary.json").write_text(json.dumps(summary | rest))
    metrics = "epoch,selection/info_max,selection/dev\n0,1.5,0.1\n1,1.75,0.2\n2,1.25,0.3\n"
    (tmp_path / "metrics.csv").write_text(metrics)
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc").oracle_best is None
    curve = "step,cpu_seconds,target/accuracy\n500,20.5,0.75\n1000,41.0,0.5\n1500,60.0,0.25\n"
    (tmp_path / "oracle.csv").write_text(curve)
    result = result_of_run(tmp_path, "a_to_b", "dann", "abc")
    assert (result.at_info_max, result.oracle_best, result.at_snd) == (0.5, 0.75, None)


def test_a_run_directory_becomes_a_result(tmp_path):
    summary = {
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
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc", bar=0.6) == RUN
    curve = "step,cpu_seconds,target/accuracy\n500,20.5,0.58\n1000,41.0,0.61\n1500,60.0,0.59\n"
    (tmp_path / "oracle.csv").write_text(curve)
    result = result_of_run(tmp_path, "a_to_b", "dann", "abc", bar=0.6)
    assert (result.steps_to_bar, result.cpu_seconds_to_bar) == (1000, 41.0)
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc", bar=0.7).steps_to_bar is None
    assert result_of_run(tmp_path, "a_to_b", "dann", "abc").steps_to_bar is None
