"""How well each score chooses, on results that are made up."""

import pytest
from test_results import variant

from dann.experiments.scores_section import scores_section


@pytest.fixture(autouse=True)
def few_runs_suffice(monkeypatch):
    monkeypatch.setattr("dann.experiments.score_choices._FEWEST", 5)


MEANS = ["mean", "mean, every score", "regret of settings, mean"]
ACCURACIES = (0.5, 0.6, 0.7, 0.8, 0.9)


def runs(scores, accuracies=ACCURACIES, **changes):
    """Runs with the measures of each score, by seed."""
    return [
        variant(
            {"target/accuracy": accuracy, **{name: of[k] for name, of in scores.items()}},
            seed=k,
            **changes,
        )
        for k, accuracy in enumerate(accuracies)
    ]


def rows_of(results):
    """The cells of each line of each table, by what begins the line."""
    [section] = scores_section(results)
    lines = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
    return {name: cells for name, *cells in [[cell.strip() for cell in line] for line in lines]}


def test_a_task_has_the_rank_correlation_and_the_regret_of_every_score():
    found = rows_of(
        runs(
            {
                "score/agreement": (1, 2, 3, 4, 5),
                "score/info_max": (1, 2, 3, 5, 4),  # 1 - 6 * 2 / (5 * 24) = .9
                "score/snd": (5, 4, 3, 2, 1),
            }
        )
    )
    assert found["score"] == ["a_to_b (5 runs)", *MEANS]
    assert list(found) == ["score", "---", "`agreement`", "`info_max`", "`snd`"]
    assert found["`agreement`"] == [*["1.00, 0.0"] * 3, "0.0"]
    assert found["`info_max`"] == [*["0.90, 10.0"] * 3, "0.0"]
    assert found["`snd`"] == [*["-1.00, 40.0"] * 3, "0.0"]


def test_tasks_stand_side_by_side_and_means_are_of_those_that_have_every_score():
    both = {"score/info_max": (1, 2, 3, 4, 5), "score/snd": (1, 2, 3, 5, 4)}
    turned = {"score/info_max": (5, 4, 3, 2, 1), "score/snd": (1, 2, 3, 4, 5)}
    lacking = {"score/info_max": (5, 4, 3, 2, 1)}
    tasks = {"a_to_b": both, "c_to_d": turned, "e_to_f": lacking}
    found = rows_of([run for name, of in tasks.items() for run in runs(of, experiment=name)])
    assert found["score"] == [*(f"{name} (5 runs)" for name in tasks), *MEANS]
    alone = ["1.00, 0.0", "-1.00, 40.0", "-1.00, 40.0"]
    assert found["`info_max`"] == [*alone, *["0.00, 20.0"] * 2, "0.0"]
    assert found["`snd`"] == ["0.90, 10.0", "1.00, 0.0", "", *["0.95, 5.0"] * 2, "0.0"]
    assert list(found)[-2:] == ["`snd`", "`info_max`"]


def test_a_slow_score_that_a_task_lacks_leaves_it_in_the_first_mean():
    known = {"score/info_max": (1, 2, 3, 4, 5), "score/dev": (5, 4, 3, 2, 1)}
    lacking = runs({"score/info_max": (5, 4, 3, 2, 1)}, experiment="c_to_d")
    found = rows_of([*runs(known), *lacking])
    assert found["`info_max`"] == ["1.00, 0.0", "-1.00, 40.0", "0.00, 20.0", "1.00, 0.0", "0.0"]
    assert found["`dev`"] == ["-1.00, 40.0", "", "", "-1.00, 40.0", ""]
    assert list(found)[-2:] == ["`info_max`", "`dev`"]


def test_a_score_that_some_runs_lack_is_of_the_others_and_enters_no_mean():
    known = {"score/info_max": (1, 2, 3, 4, 5)}
    lacking = {"score/info_max": 9, "target/accuracy": 1.0}
    some = [*runs(known | {"score/snd": (1, 2, 3, 5, 4)}), variant(lacking, seed=9)]
    found = rows_of(some)
    assert found["score"][0] == "a_to_b (6 runs)"
    assert found["`snd`"] == ["0.90, 10.0 (5)", "", "", ""]
    assert found["`info_max`"] == ["1.00, 0.0", "", "", ""]
    found = rows_of([*some, *runs(known | {"score/snd": (5, 4, 3, 2, 1)}, experiment="c_to_d")])
    assert found["`snd`"][1:] == [*["-1.00, 40.0"] * 3, "0.0"]
    assert "`snd`" not in rows_of([*some, variant(lacking, seed=10)][1:])  # four have it


def test_where_no_task_has_every_score_there_are_no_means():
    first = runs({"score/snd": (1, 2, 3, 4, 5)})
    second = runs({"score/info_max": (5, 4, 3, 2, 1)}, experiment="c_to_d")
    found = rows_of([*first, *second])
    assert found["`snd`"] == ["1.00, 0.0", "", "", "", ""]
    assert found["`info_max`"] == ["", "-1.00, 40.0", "", "", ""]


def test_of_runs_that_agree_equally_info_max_chooses_and_of_others_the_mean_counts():
    equal = (1, 1, 1, 1, 0)
    found = rows_of(
        runs(
            {
                "score/agreement": equal,
                "score/snd": equal,
                "score/info_max": (1, 2, 4, 3, 5),
            }
        )
    )
    regrets = {name: cells[0].split(", ")[1] for name, cells in found.items() if name[0] == "`"}
    assert regrets == {"`agreement`": "20.0", "`snd`": "25.0", "`info_max`": "0.0"}


def test_of_runs_that_agree_equally_without_info_max_the_mean_counts():
    cells = rows_of(runs({"score/agreement": (1, 1, 1, 1, 0)}))["`agreement`"]
    assert cells[0].split(", ")[1] == "25.0"


def test_the_order_of_the_results_makes_no_difference():
    of = {"score/snd": (1, 1, 1, 0, 0), "score/info_max": (2, 2, 1, 1, 1)}
    results = [*runs(of, method="a"), *runs(of, (0.9, 0.1, 0.3, 0.5, 0.7), method="b")]
    assert rows_of(results) == rows_of(results[::-1])


def test_a_mean_is_over_all_tasks_and_epochs_differ_by_hundredths():
    of = {"score/snd": (1, 2, 3, 4, 5)}
    accuracies = (ACCURACIES, (0.5, 0.6, 0.7, 0.9, 0.8), (0.9, 0.6, 0.7, 0.8, 0.5))
    tasks = [runs(of, row, experiment=str(row)) for row in accuracies]  # 1, .9 and -.6
    cells = rows_of([run for task in tasks for run in task])["`snd`"]
    assert cells[3] == "0.43, 16.7"


def test_scores_without_a_first_mean_come_in_the_order_of_the_second():
    of = {"score/dev": (5, 4, 3, 2, 1), "score/mix_val": (1, 2, 3, 4, 5)}
    known = {"score/snd": (5, 4, 3, 2, 1)}
    found = rows_of([*runs(of | known), *runs(known, experiment="c_to_d")])
    assert list(found)[-3:] == ["`snd`", "`mix_val`", "`dev`"]


def test_no_correlation_is_not_below_zero():
    accuracies = [k / 10 for k in range(11)]
    rising = runs({"score/snd": range(10)}, accuracies[:10])
    falling = runs({"score/snd": range(11, 0, -1)}, accuracies, experiment="c_to_d")
    cells = rows_of([*rising, *falling])["`snd`"]
    assert [cell.split(", ")[0] for cell in cells[:3]] == ["1.00", "-1.00", "0.00"]


@pytest.mark.parametrize("slow", ["dev", "mix_val", "reverse_validation"])
def test_slow_scores_alone_have_no_first_mean(slow):
    cells = rows_of(runs({f"score/{slow}": (1, 2, 3, 4, 5)}))[f"`{slow}`"]
    assert cells == ["1.00, 0.0", "", "1.00, 0.0", ""]


def test_ten_runs_tell_something_and_nine_nothing(monkeypatch):
    monkeypatch.undo()
    some = runs({"score/snd": range(10)}, [k / 10 for k in range(10)])
    assert rows_of(some)["`snd`"][0] == "1.00, 0.0"
    assert scores_section(some[1:]) == []


def test_of_settings_the_one_with_the_highest_mean_over_its_seeds_is_chosen():
    # b has the run with the highest score and the best accuracy, a the higher means of both.
    a = runs({"score/snd": (4, 4, 4)}, (0.7, 0.8, 0.9), method="a")
    b = runs({"score/snd": (1, 1, 5)}, (0.5, 0.5, 0.95), method="b")
    c = runs({"score/snd": (3, 3, 3)}, (0.8, 0.9, 0.9), method="c")
    mean = (0.8 + 0.9 + 0.9) / 3 - (0.7 + 0.8 + 0.9) / 3
    cells = rows_of([*a, *b, *c])["`snd`"]
    assert cells[0].split(", ")[1] == "0.0"
    assert cells[-1] == f"{100 * mean:.1f}"


def test_of_settings_that_agree_equally_info_max_chooses():
    of = {"score/agreement": (1, 1, 1), "score/info_max": (1, 1, 1)}
    a = runs(of, (0.5, 0.6, 0.7), method="a")
    b = runs(of | {"score/info_max": (2, 2, 2)}, (0.3, 0.4, 0.5), method="b")
    c = runs({"score/agreement": (0, 0, 0), "score/info_max": (3, 3, 3)}, (0.9,) * 3, method="c")
    assert rows_of([*a, *b, *c])["`agreement`"][-1] == "50.0"


def test_an_oracle_is_not_ranked_and_few_runs_and_equal_scores_tell_nothing():
    known = {"score/info_max": (1, 2, 3, 4, 5)}
    oracle = variant({"score/info_max": 9, "target/accuracy": 1.0}, method="target_only")
    assert rows_of([*runs(known), oracle])["`info_max`"][0] == "1.00, 0.0"
    another = variant({"score/info_max": 9}, method="target_only trainer.steps=9")
    assert rows_of([*runs(known), another])["`info_max`"][0] == "1.00, 0.0"
    assert "`info_max`" not in rows_of(
        [
            *runs(known | {"score/snd": (0,) * 5}, (0.5,) * 5),
            *runs({"score/dev": (1, 2, 3, 4, 5)}, experiment="c_to_d"),
        ]
    )
    assert scores_section(runs(known)[:4]) == []
    assert "`snd`" not in rows_of(runs({**known, "score/snd": (1, 1, 1, 1, 1)}))


def test_the_choice_among_epochs_has_its_mean_regret_and_the_number_of_runs():
    first = variant({"oracle/best": 0.9, "chosen/snd": 0.8, "chosen/dev": 0.85})
    second = variant({"oracle/best": 0.9, "chosen/snd": 0.9}, seed=1)
    found = rows_of([first, second, variant(seed=2)])
    assert found["`snd`"] == ["5.00", "2"]
    assert found["`dev`"] == ["5.00", "1"]
    oracle = variant({"oracle/best": 1.0, "chosen/dev": 0.0}, method="target_only")
    assert rows_of([first, second, oracle])["`dev`"] == ["5.00", "1"]


def test_without_scores_there_is_no_section():
    assert scores_section([variant()]) == []
