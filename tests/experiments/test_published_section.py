"""The table of published figures."""

import types

from test_results import RUN, variant

from dann.experiments.published_section import published_section

PUBLISHED = {"a_to_b": {"cdan": 0.977, "dann": 0.72, "dann x=1": 0.7}, "b_to_c": {"dann": 0.9}}


def section_of(results, published=PUBLISHED, **settings):
    empty = {"without_adversary": {}, "causes": {}, "names": {}}
    given = types.SimpleNamespace(published=published, **{**empty, **settings})
    return published_section(results, given)


def rows_of(results, **settings):
    text = "".join(section_of(results, **settings))
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


def run(last, best, chosen, **changes):
    measures = {"target/accuracy": last, "oracle/best": best, "chosen/info_max": chosen}
    return variant(measures, **changes)


def test_a_row_has_the_means_and_the_difference_of_the_best_epoch():
    results = [run(0.6, 0.7, 0.65), run(0.7, 0.8, 0.75, seed=1), run(0.1, 0.2, 0.3, method="mcd")]
    assert rows_of(results, causes={"a_to_b": {"dann": "fewer steps", "cdan": "another"}}) == [
        {
            "experiment": "`a_to_b`",
            "method": "DANN",
            "runs, steps": "2, 4,000",
            "last step": "65.0 ± 7.1",
            "strength 0, last step": "",
            "InfoMax's epoch": "70.0",
            "best epoch (oracle)": "75.0",
            "published": "72.0",
            "best epoch - published, points": "+3.0",
            "what makes the difference": "fewer steps",
        }
    ]


def test_rows_come_in_the_order_of_the_figures_and_have_their_names():
    results = [
        run(0.6, 0.7, 0.65, experiment="b_to_c"),
        run(0.6, 0.7, 0.65, method="dann x=1"),
        run(0.6, 0.7, 0.65, method="cdan"),
    ]
    rows = rows_of(results, names={"dann x=1": "DANN with x"})
    assert [row["method"] for row in rows] == ["CDAN", "DANN with x", "DANN"]
    assert [row["best epoch - published, points"] for row in rows] == ["-27.7", "+0.0", "-20.0"]


def test_runs_without_a_curve_leave_their_cells_empty():
    [row] = rows_of([run(0.6, 0.7, 0.65), variant(seed=1)])
    assert row["last step"] == "65.0 ± 7.1"
    empty = ("InfoMax's epoch", "best epoch (oracle)", "best epoch - published, points")
    assert [row[name] for name in empty] == ["", "", ""]


def test_a_figure_that_is_not_known_leaves_its_cells_empty():
    [row] = rows_of([run(0.6, 0.7, 0.65)], published={"a_to_b": {"dann": None}})
    assert row["best epoch (oracle)"] == "70.0"
    assert (row["published"], row["best epoch - published, points"]) == ("", "")


def test_without_a_published_figure_there_is_no_section():
    assert section_of([RUN], published={}) == []
    assert section_of([variant(experiment="other")]) == []


def test_the_same_at_strength_0_stands_beside_it_with_what_the_adversary_adds():
    results = [
        run(0.6, 0.7, 0.65, method="cdan"),
        run(0.75, 0.7, 0.65),
        run(0.625, 0.7, 0.65, method="dann y=0"),
        run(0.635, 0.7, 0.65, method="dann y=0", seed=1),
        run(0.9, 0.9, 0.9, method="dann y=0", experiment="b_to_c"),
    ]
    rows = rows_of(results, without_adversary={"cdan": "dann y=0", "dann": "dann y=0"})
    assert [row["strength 0, last step"] for row in rows] == ["63.0 (-2.5)", "63.0 (+12.5)"]


def test_no_difference_is_not_below_zero():
    results = [run(0.6, 0.7, 0.7), run(0.6 + 1e-6, 0.7, 0.7, method="dann y=0")]
    published = {"a_to_b": {"dann": 0.7 + 1e-6}}
    [row] = rows_of(results, without_adversary={"dann": "dann y=0"}, published=published)
    assert row["strength 0, last step"] == "60.0 (+0.0)"
    assert row["best epoch - published, points"] == "+0.0"


def test_what_the_adversary_adds_is_on_the_same_seeds():
    results = [run(0.6, 0.7, 0.65), run(0.5, 0.7, 0.65, method="dann y=0", seed=1)]
    [row] = rows_of(results, without_adversary={"dann": "dann y=0"})
    assert row["strength 0, last step"] == "50.0"
