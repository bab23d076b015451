import itertools
import re

import pytest
from omegaconf import OmegaConf
from support.configs import CONF, composed
from test_results import RUN, variant

from dann.experiments.results import read_results
from dann.experiments.results_page import results_page
from dann.selection import SCORES

ROOT = CONF.parent


@pytest.mark.parametrize("choice", ["cpu", "gpu"])
def test_the_page_in_the_documentation_is_the_one_of_its_table(choice):
    cfg = composed(f"page={choice}", script="reproduce")
    table = ROOT / cfg.results
    results = read_results(table)
    noted = re.findall(r"^## (\w+)$", (ROOT / "docs/experiments.md").read_text(), re.M)
    page = results_page(results, cfg.page, noted, table.name)
    assert table.with_suffix(".md").read_text() == page
    assert {result.experiment for result in results} <= set(noted)
    runs = {(r.experiment, r.method, r.seed) for r in results}
    assert set(itertools.product(cfg.experiments, cfg.methods, cfg.seeds)) <= runs


def test_a_page_of_ones_own_has_no_note_of_ours():
    page = results_page([RUN], composed("page=own", script="reproduce").page)
    assert page.startswith("# Results\n\n`python scripts/reproduce.py` makes this page")
    assert "no other training and no score reads them.\n\n## Each task" in page
    assert "results-gpu.md" not in page
    assert "experiments.md" not in page


def test_a_page_without_results_explains_no_tables():
    assert "## " not in results_page([], composed("page=own", script="reproduce").page)


def test_every_name_on_the_pages_is_of_a_row():
    tables = [read_results(ROOT / f"docs/{name}.csv") for name in ("results", "results-gpu")]
    names = composed(script="reproduce").page.names
    assert set(names) <= {result.method for results in tables for result in results}


def settings(**given):
    dicts = dict.fromkeys(("bars", "published", "without_adversary", "causes", "names"), {})
    told = {"title": "My runs", "command": "python mine.py", "note": ""}
    return OmegaConf.create({**told, "summary": [], **dicts, **given})


def accuracy(value, **changes):
    return variant({"target/accuracy": value}, **changes)


def page_rows(results, **given):
    page = results_page(results, settings(**given))
    of_tasks = page.partition("## A → B")[2].partition("## Scores without target labels")[0]
    table = [line.split("|")[1:-1] for line in of_tasks.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line] for line in table]
    return page, [dict(zip(header, row, strict=True)) for row in rows]


def test_the_page_has_mean_spread_and_share_of_the_gap():
    results = [
        *[accuracy(a, seed=s) for s, a in enumerate((0.7, 0.8, 0.9))],
        *[accuracy(0.5, method="source_only", seed=s) for s in range(3)],
        *[accuracy(1.0, method="target_only", seed=s) for s in range(3)],
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


@pytest.mark.parametrize(
    ("method", "share"),
    [
        ("dann schedule.high=0", "60.0%"),
        ("dann +method.task_radius=1 regularizers.mcc.weight=2", "60.0%"),
        ("dann regularizer=mcc augmentation=affine", ""),
        ("target_only augmentation=affine", ""),
    ],
)
def test_only_a_row_with_the_data_and_the_network_of_both_ends_has_a_share_of_the_gap(
    method, share
):
    ends = {"source_only": 0.5, "target_only": 1.0}
    results = [accuracy(a, method=m) for m, a in {**ends, method: 0.8}.items()]
    assert {row["gap closed"] for row in page_rows(results)[1]} == {"", share}


def test_oracles_stand_last_whatever_their_arguments():
    methods = ("target_only a=1", "target_only", "wdgrl", "dann", "source_only")
    _, rows = page_rows([variant(method=method) for method in methods])
    assert [row["method"] for row in rows] == [
        "source only",
        "DANN",
        "WDGRL",
        "train on target (oracle)",
        "train on target (oracle), a=1",
    ]


def test_a_row_has_the_title_of_its_method_or_its_name_in_capitals():
    methods = ("cdan", "cdan_e", "fdal", "method_of_another")
    _, rows = page_rows([variant(method=method) for method in methods])
    assert [row["method"] for row in rows] == ["CDAN", "CDAN+E", "f-DAL", "METHOD_OF_ANOTHER"]


def test_a_row_with_a_name_of_its_own_tells_its_arguments_below():
    results = [RUN, variant(method="dann x=[1,2] y=3")]
    page, rows = page_rows(results, names={"dann x=[1,2] y=3": "DANN, more", "cdan z=1": "CDAN"})
    assert [row["method"] for row in rows] == ["DANN", "DANN, more"]
    assert page.count("\n- DANN, more: `method=dann x=[1,2] y=3`\n") == 1
    assert "cdan z=1" not in page


@pytest.mark.parametrize(
    "ends",
    [
        {"source_only": (0.7,)},
        {"source_only": (0.7,), "target_only": (0.7,)},
        {"source_only": (0.5, 0.6), "target_only": (0.58, 0.6)},
    ],
)
def test_without_a_gap_or_with_one_within_the_spread_there_is_no_share(ends):
    others = [accuracy(a, method=m, seed=s) for m, of in ends.items() for s, a in enumerate(of)]
    assert {row["gap closed"] for row in page_rows([RUN, *others])[1]} == {""}


def test_the_page_says_when_the_bar_was_first_passed():
    results = [
        RUN,
        variant({"bar/steps": 1500, "bar/cpu_seconds": 60.4}, seed=1),
        variant({"target/accuracy": 0.7666}, seed=2),
    ]
    _, [row] = page_rows(results, bars={"a_to_b": 0.7666})
    assert row["first 0.7666"] == "0: never; 1: 1,500 steps, 60 s; 2: not recorded"


def test_experiments_on_the_same_domains_have_their_names_in_their_titles():
    others = variant(experiment="small_a_to_b"), variant(experiment="c", domains="C → D")
    page = results_page([RUN, *others], settings())
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    assert titles[1:] == ["## A → B (a_to_b)", "## A → B (small_a_to_b)", "## C → D"]


def test_the_page_has_its_table_its_arguments_and_a_link_to_the_notes():
    page = results_page([RUN], settings(), ["a_to_b", "other"], "short.csv", ["trainer.steps=9"])
    assert "`python mine.py 'overrides=[trainer.steps=9]'`" in page
    assert "[short.csv](short.csv)" in page
    assert "`python scripts/train.py experiment=a_to_b method=... trainer.steps=9`" in page
    assert page.endswith("\n\n[What was tried and seen](experiments.md#a_to_b).\n")
    assert "#other" not in page
    assert "experiments.md#" not in results_page([RUN], settings(), ["other"])


def choices(page):
    """The table of the scores' choices: its titles, and the cells of each row."""
    of_tasks = page.partition("## Scores without target labels")[0]
    lines = of_tasks.partition("| epoch chosen by ")[2].splitlines()
    rows = [line.split("|")[1:-1] for line in lines[2:] if line.startswith("| ")]
    titles = [title.strip() for title in lines[0].split("|")[1:-1]]
    return titles, [[cell.strip() for cell in row] for row in rows]


def test_the_page_says_what_every_registered_score_would_have_chosen():
    chosen = {f"chosen/{name}": 0.6 for name in SCORES} | {"oracle/best": 0.75}
    results = [
        variant({**chosen, "chosen/snd": 0.4}, seed=0),
        variant({**chosen, "chosen/snd": 0.5}, seed=1),
        variant(chosen, method="cdan_e", seed=0),
        variant(method="cdan_e", seed=1),  # not all runs of CDAN+E have them
    ]
    titles, rows = choices(results_page(results, settings()))
    assert titles == ["last", *SCORES, "best (oracle)"]
    means = ["0.4500" if name == "snd" else "0.6000" for name in SCORES]
    assert rows == [["DANN", "0.7000", *means, "0.7500"]]


def test_a_score_that_older_runs_lack_leaves_their_cells_empty():
    older = {"chosen/entropy": 0.6, "oracle/best": 0.75}
    newer = variant({**older, "chosen/snd": 0.5}, method="cdan_e")
    titles, rows = choices(results_page([variant(older), newer], settings()))
    assert set(titles) == {"last", "entropy", "snd", "best (oracle)"}
    of_dann = dict(zip(titles, rows[1][1:], strict=True))
    assert (of_dann["snd"], of_dann["entropy"]) == ("", "0.6000")
    assert dict(zip(titles, rows[0][1:], strict=True))["snd"] == "0.5000"
