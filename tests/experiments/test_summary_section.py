from types import SimpleNamespace

from test_results import variant

from dann.experiments.summary_section import summary_section


def accuracy(value, method="dann", seed=0, **changes):
    return variant({"target/accuracy": value}, method=method, seed=seed, **changes)


def settings(*experiments, **published):
    return SimpleNamespace(summary=experiments, published=published)


def rows_of(results, experiments=("a_to_b",), **published):
    text = "\n".join(summary_section(results, settings(*experiments, **published)))
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_a_row_has_the_means_and_what_the_adversary_adds():
    results = [
        *[accuracy(a, seed=s) for s, a in zip((2, 0, 1), (0.9, 0.7, 0.8), strict=True)],
        *[accuracy(a, "dann schedule.high=0", seed=s) for s, a in enumerate((0.7, 0.75))],
        accuracy(0.5, "source_only", steps=9, hardware="another"),
        accuracy(0.1, "cdan", hardware="a third"),
    ]
    assert rows_of(results, a_to_b={"dann": 0.7666, "cdan": 0.9}) == [
        {
            "experiment": "`a_to_b`",
            "source only": "50.0",
            "DANN, strength 0": "72.5 ± 3.5",
            "DANN": "80.0 ± 10.0",
            "the adversary adds": "+2.5 (n = 2)",
            "DANN, published": "76.7",
            "train on target (oracle)": "",
        }
    ]
    machine = "4,000 steps (a machine, 2 cores)"
    told = (
        '- `a_to_b`: "source only": 9 steps (another), seeds 0; '
        f'"DANN, strength 0": {machine}, seeds 0 to 1; "DANN": {machine}, seeds 0 to 2'
    )
    assert told in summary_section(results, settings("a_to_b"))
    alike = [accuracy(0.9, "target_only"), accuracy(0.7)]
    told = "- `a_to_b`: 4,000 steps (a machine, 2 cores), seeds 0"
    assert told in summary_section(alike, settings("a_to_b"))


def test_columns_with_the_same_seeds_steps_and_hardware_stand_together():
    results = [accuracy(0.7), accuracy(0.8, seed=1), accuracy(0.9, "target_only")]
    results += [accuracy(0.6, "source_only"), accuracy(0.6, "source_only", seed=1)]
    told = (
        '- `a_to_b`: "source only" and "DANN": 4,000 steps (a machine, 2 cores), seeds 0 to 1; '
        '"train on target (oracle)": 4,000 steps (a machine, 2 cores), seeds 0'
    )
    assert told in summary_section(results, settings("a_to_b"))


def test_seeds_in_a_row_are_told_by_the_first_and_the_last():
    results = [accuracy(0.7, seed=seed) for seed in (21, 3, 0, 20, 1, 22)]
    told = "- `a_to_b`: 4,000 steps (a machine, 2 cores), seeds 0 to 1, 3, 20 to 22"
    assert told in summary_section(results, settings("a_to_b"))


def test_no_gain_is_not_below_zero():
    results = [accuracy(0.7), accuracy(0.7 + 1e-6, "dann schedule.high=0")]
    assert rows_of(results)[0]["the adversary adds"] == "+0.0 (n = 1)"


def test_only_a_page_with_published_figures_tells_what_they_are():
    told = "[the same of these runs](#beside-published-figures)"
    results = [accuracy(0.7), accuracy(0.7, experiment="protocol_a")]
    published = {"protocol_a": {"dann": 0.5}, "a_to_b": {"dann": 0.5}}
    alone, beside = (
        "".join(summary_section(results, settings(name, **published)))
        for name in ("a_to_b", "protocol_a")
    )
    assert (told in alone, told in beside) == (False, True)


def test_an_adversary_that_costs_accuracy_is_negative():
    results = [accuracy(0.7), accuracy(0.8, "dann schedule.high=0")]
    [row] = rows_of(results, b_to_c={"dann": 0.5}, a_to_b={"cdan": 0.5})
    assert row["the adversary adds"] == "-10.0 (n = 1)"
    assert row["DANN, published"] == ""


def test_rows_come_in_the_order_of_the_experiments_and_only_those_with_dann():
    results = [
        accuracy(0.7),
        accuracy(0.6, experiment="b_to_c"),
        accuracy(0.6, experiment="not_asked_for"),
        accuracy(0.6, "source_only", experiment="without"),
    ]
    rows = rows_of(results, ("b_to_c", "without", "a_to_b", "nowhere"))
    assert [row["experiment"] for row in rows] == ["`b_to_c`", "`a_to_b`"]


def test_without_results_there_is_no_section():
    assert summary_section([accuracy(0.7)], settings("other")) == []
    assert summary_section([accuracy(0.7)], settings()) == []
