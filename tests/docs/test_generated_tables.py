"""What `docs/tables.py` writes says what the registries say."""

import importlib.util
import statistics
import sys

import pytest
from omegaconf import OmegaConf
from support import pages

from dann.experiments.results import Result
from dann.registry import Registry

SPEC = importlib.util.spec_from_file_location("tables", pages.ROOT / "docs/tables.py")
tables = importlib.util.module_from_spec(SPEC)
sys.path.append(str(pages.ROOT / "docs"))  # as for a script in there
SPEC.loader.exec_module(tables)
notes_tables = importlib.import_module("notes_tables")
results_figures = importlib.import_module("results_figures")
results_tables = importlib.import_module("results_tables")


@pytest.fixture(scope="module")
def known():
    return tables.registries()


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.name)
def test_a_page_has_the_tables_that_the_registries_give(page, known):
    assert page.read_text() == tables.filled(page.read_text(), known), "run docs/tables.py"


def test_type_checkers_see_the_names_that_the_registries_give():
    for path, names in tables.packages().items():
        assert path.read_text() == tables.named(path.read_text(), names), "run docs/tables.py"


def test_the_readme_tells_what_the_adversary_adds():
    def gain(experiment):
        of = results_tables.by_seed
        without, ours = of(experiment, results_tables.WITHOUT), of(experiment, "dann")
        if experiment in recipe:  # as in the table
            without = {s: share for s, share in without.items() if s in results_tables.UNSEEN}
        return 100 * statistics.mean(ours[seed] - share for seed, share in without.items())

    def ends(experiments, form):
        gains = sorted(map(gain, experiments))
        return " to ".join(f"{gains[end]:{form}}".replace("0.", ".") for end in (0, -1))

    recipe = [f"teacher_{task}" for task in results_tables.TASKS]
    told = (
        f"{gain('digits_to_photos'):.0f} points in the first run, "
        f"{ends(results_tables.PUBLISHED.values(), '.0f')} for DANN, "
        f"{ends(recipe, '.1f')} in the recipe"
    )
    assert told in " ".join((pages.ROOT / "README.md").read_text().split())


@pytest.mark.parametrize(
    ("table", "unexplained"),
    [
        (results_tables.TABLE, []),
        (results_tables.ON_GPU, [("protocol_usps_to_mnist", "mcd")]),  # its page says so
    ],
)
def test_each_row_more_than_a_point_below_its_published_figure_has_a_cause(table, unexplained):
    causes = OmegaConf.load(results_tables.REPRODUCE).page.causes
    without = [
        (e, method) for e, method in below_published(table) if method not in causes.get(e, {})
    ]
    assert [(experiment, method.split()[0]) for experiment, method in without] == unexplained


def test_each_cause_is_of_a_row_more_than_a_point_below_its_published_figure():
    causes = OmegaConf.load(results_tables.REPRODUCE).page.causes
    rows = {(experiment, method) for experiment, of in causes.items() for method in of}
    assert rows <= set(below_published(results_tables.TABLE))


def below_published(table):
    """The rows of the protocol with a best epoch more than a point below what is published."""
    page = OmegaConf.load(results_tables.REPRODUCE).page
    below = []
    for experiment in ("protocol_mnist_to_usps", "protocol_usps_to_mnist"):
        for method, published in page.published[experiment].items():
            runs_of_it = results_tables.runs_of(experiment, method, table).values()
            if published is None or (table == results_tables.ON_GPU and not runs_of_it):
                continue  # not each method ran on a GPU
            best = statistics.mean(run.measures["oracle/best"] for run in runs_of_it)
            below += [(experiment, method)] if best < published - 0.01 else []
    return below


def test_the_readme_tells_what_the_recipe_takes():
    runs = [
        run
        for task in results_tables.TASKS
        for run in results_tables.runs_of(f"teacher_{task}", "dann").values()
    ]
    [steps] = {run.steps for run in runs}
    minutes = statistics.mean(run.measures["cpu_seconds"] for run in runs) / 60
    readme = " ".join((pages.ROOT / "README.md").read_text().split())
    assert f"{steps:,} steps, {minutes:.0f} CPU minutes" in readme


def test_the_readme_tells_what_the_papers_optimizer_gives():
    name = "DANN, the paper's rate, no limit, no average"
    figure = float(results_figures.figure("mean", f"mnist_to_mnist_m | {name}")) / 100
    readme = " ".join((pages.ROOT / "README.md").read_text().split())
    assert f"[{figure:.3f} with the paper's optimizer]".replace("0.", ".") in readme


def test_a_list_of_names_is_sorted_and_its_lines_are_short():
    text = "if TYPE_CHECKING:  # written by docs/tables.py\n    import old\n\nafter\n"
    long = "A" + 40 * "a"
    names = {long: "b", "Two": "a.c", "ONE": "a.c", "rooms": "a"}
    assert tables.named(text, names).splitlines() == [
        "if TYPE_CHECKING:  # written by docs/tables.py",
        "    from a import rooms as rooms",
        "    from a.c import ONE as ONE",
        "    from a.c import Two as Two",
        "    from b import (",
        f"        {long} as {long},",
        "    )",
        "",
        "after",
    ]


def test_a_table_has_a_row_for_each_entry_and_the_columns_that_the_page_asks_for():
    registry = Registry("score")
    registry.register("b", summary="Second | last.", needs=("source",), arguments={"x": 1})(dict)
    registry.register("a", summary="First.")(list)
    text = "<!-- table: scores | score=, in Python, summary, needs -->\nold\n<!-- end -->\nafter"
    assert tables.filled(text, {"scores": registry}).splitlines()[1:-2] == [
        "",
        "| `score=` | in Python | what it does | needs |",
        "|---|---|---|---|",
        "| `a` | `list` | First. |  |",
        "| `b` | `dict(x=1)` | Second \\| last. | `source` |",
        "",
    ]


def test_marked_thresholds_are_those_of_the_code():
    page = "below <!-- winning.APART -->{}<!-- = --> or <!-- conflict/cosine low -->{}<!-- = -->"
    assert tables.filled(page.format("9", "-1"), {}) == page.format(".35", "-.9")


def runs(accuracies):
    """Runs by their seeds, each with the target accuracy of its last step and its best epoch."""
    names = ("target/accuracy", "oracle/best")
    return {
        seed: Result("a", "dann", seed, "", "A → B", 9, "", dict(zip(names, row, strict=True)))
        for seed, row in accuracies.items()
    }


@pytest.mark.parametrize(
    ("kind", "figure"), [("mean", "92.0"), ("spread", "92.0 ± 2.8"), ("best", "94.0")]
)
def test_a_figure_in_a_sentence_is_of_a_row(kind, figure):
    assert results_figures.KINDS[kind](runs({1: (0.90, 0.93), 2: (0.94, 0.95)})) == figure


@pytest.mark.parametrize(
    ("kind", "figure"), [("gain", "3.0"), ("gain_spread", "3.0 ± 1.4"), ("best_gain", "-1.0")]
)
def test_a_gain_is_over_the_seeds_that_both_rows_have(kind, figure):
    ours = runs({1: (0.90, 0.91), 2: (0.94, 0.95), 3: (0.92, 0.95)})
    theirs = runs({2: (0.90, 0.96), 7: (0.1, 0.1), 3: (0.90, 0.96)})
    assert results_figures.KINDS[kind](ours, theirs) == figure


def test_marked_figures_are_those_of_the_results():
    mark = "<!-- gain: teacher_usps_to_mnist (GPU) | DANN | source only -->"
    of = [
        results_tables.by_seed("teacher_usps_to_mnist", method, results_tables.ON_GPU)
        for method in ("dann", "source_only")
    ]
    gain = 100 * statistics.mean(of[0][seed] - of[1][seed] for seed in (0, 1, 2))
    assert tables.filled(f"{mark}9<!-- = -->", {}) == f"{mark}{gain:.1f}<!-- = -->"


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("<!-- mean: digits_to_photos | DANNN -->9<!-- = -->", "Received: DANNN"),
        (
            "<!-- mean: digits_to_photoz | DANN -->9<!-- = -->",
            r"photoz has the rows \[\]",
        ),
        ("<!-- meen: digits_to_photos | DANN -->9<!-- = -->", "Received: meen: digits_to_photos"),
        ("<!-- gain: digits_to_photos | DANN -->9<!-- = -->", "A gain has two rows"),
        ("<!-- gain mnist_to_usps | DANN | CDAN -->9<!-- = -->", "Each mark must have the form"),
        ("<!-- mean: digits_to_photos | DANN -->9", "Each mark must have the form"),
        ("9<!-- = -->", "Each mark must have the form"),
        ("<!-- mean: digits_to_photos | DANN -->9, a\n\nb <!-- = -->", "Each mark must have the"),
        (
            "<!-- best: mnist_binary_mlp | source only -->9<!-- = -->",
            "needs the best epoch of each",
        ),
        ("<!-- table: default_run -->\n", "Received: 1 such lines, and 0 tables"),
        ("<!-- end -->\n", "Received: 1 such lines, and 0 tables"),
        ("  <!-- table: results -->\n  <!-- end -->\n", "Received: 2 such lines, and 0 tables"),
        (
            "<!-- table: default_run -->\na\n<!-- table: default_search -->\n<!-- end -->",
            "Received: 3 such lines, and 1 tables",
        ),
        ("<!-- table: nope -->\n<!-- end -->", r"must be one of \['groups'.*Received: nope$"),
    ],
)
def test_a_mark_that_gives_no_figure_is_refused(mark, message):
    with pytest.raises(ValueError, match=message):
        tables.filled(mark, {})


def test_rows_without_a_common_seed_have_no_gain():
    with pytest.raises(ValueError, match=r"must share a seed. Received: \[1\] and \[2\]"):
        results_figures.gain(runs({1: (0.9, 0.9)}), runs({2: (0.9, 0.9)}))


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.name)
def test_no_mark_begins_a_line_where_markdown_would_end_the_paragraph(page):
    lines = page.read_text().splitlines()
    assert [
        line for line in lines if line.lstrip().startswith("<!--") and "<!-- = -->" in line
    ] == []


def test_a_table_of_notes_has_in_columns_what_its_rows_do_not_share(monkeypatch):
    keys = ("setting", "steps", "seeds", "hardware", "measure", "value")
    rows = [("a", "10", "x", ".1"), ("a", "20", "x", ".2"), ("b", "20", "y", ".3")]
    rows = [(setting, steps, "0", "CPU", *more) for setting, steps, *more in rows]
    rows = [dict(zip(keys, row, strict=True)) for row in rows]
    monkeypatch.setattr(notes_tables, "all_notes", lambda: {"t": rows})
    assert notes_tables.notes("t").splitlines() == [
        "|  | steps | x | y |",
        "|---|---|---|---|",
        "| a | 10 | .1 |  |",
        "| a | 20 | .2 |  |",
        "| b | 20 |  | .3 |",
        "",
        "Seeds: 0. Hardware: CPU.",
    ]


def test_a_table_of_notes_tells_no_circumstance_that_no_log_has(monkeypatch):
    row = {"setting": "a", "steps": "", "seeds": "", "hardware": "", "measure": "x", "value": ".1"}
    monkeypatch.setattr(notes_tables, "all_notes", lambda: {"t": [row]})
    assert notes_tables.notes("t").splitlines() == ["|  | x |", "|---|---|", "| a | .1 |"]


def test_two_notes_on_one_cell_are_refused(monkeypatch):
    row = {"setting": "a", "steps": "", "seeds": "", "hardware": "", "measure": "x", "value": ".1"}
    monkeypatch.setattr(notes_tables, "all_notes", lambda: {"t": [row, {**row, "value": ".2"}]})
    with pytest.raises(ValueError, match="A cell of t must have one note"):
        notes_tables.notes("t")


def test_the_default_run_on_each_backend_is_of_results_and_notes(monkeypatch):
    asked = []

    def by_seed(experiment, method):
        asked.append((experiment, method))
        seeds = range(5) if experiment == "digits_to_photos" else range(10, 15)
        return {seed: seed / 100 for seed in seeds}

    seeds = [*range(5), *range(10, 15)]
    notes = [{"setting": "JAX", "seeds": str(seed), "value": str(seed / 50)} for seed in seeds]
    monkeypatch.setattr(notes_tables, "by_seed", by_seed)
    monkeypatch.setattr(notes_tables, "all_notes", lambda: {notes_tables.ON_BACKENDS: notes})
    assert notes_tables.default_on_backends().splitlines()[2:] == [
        "| TensorFlow | 0.0, 1.0, 2.0, 3.0, 4.0 | 10.0, 11.0, 12.0, 13.0, 14.0 | 7.0 ± 5.5% |",
        "| JAX | 0.0, 2.0, 4.0, 6.0, 8.0 | 20.0, 22.0, 24.0, 26.0, 28.0 | 14.0 ± 11.0% |",
    ]
    assert asked == [("digits_to_photos", "dann"), ("digits_to_photos_search", "dann")]


def test_every_note_stands_on_a_page():
    told = "".join(page.read_text() for page in tables.pages())
    assert [name for name in notes_tables.MADE if f"<!-- table: {name} -->" not in told] == []


def test_the_recipe_has_its_unseen_seeds_in_a_row_of_their_own(monkeypatch):
    def runs_of(experiment, method, table=results_tables.TABLE):
        accuracies = {0: 0.9, 4: 0.92, 20: 0.8, 24: 0.84}
        measures = {"chosen/info_max": 0.7, "oracle/best": 0.95, "cpu_seconds": 120}
        return {
            seed: Result(
                "a", "dann", seed, "", "A → B", 9, "", {**measures, "target/accuracy": one}
            )
            for seed, one in accuracies.items()
        }

    monkeypatch.setattr(results_tables, "runs_of", runs_of)
    seen, unseen = results_tables.recipe_runs().splitlines()[2:4]
    assert seen.startswith("| MNIST → MNIST-M | 0, 4 | 91.0 ± 1.4% | 90.0% | ")
    assert unseen.startswith("| MNIST → MNIST-M | 20, 24 | 82.0 ± 2.8% | 80.0% | ")


def made_up(**accuracies):
    """A stand-in for `by_seed`: a row by its method's first letters, if any, of every task."""

    def by_seed(experiment, method, table=results_tables.TABLE):
        name = {"dann schedule.high=0": "without"}.get(method, method.split("=")[0])
        place = "gpu_" if table == results_tables.ON_GPU else ""
        recipe = "recipe_" if experiment.startswith("teacher_") else ""
        return accuracies.get(f"{place}{recipe}{name}", {})

    return by_seed


def test_the_readme_has_the_recipe_and_its_strength_0_on_unseen_seeds_alone(monkeypatch):
    rows = {
        "source_only": {0: 0.1, 1: 0.2},
        "without": {0: 0.2, 1: 0.3},
        "dann": {0: 0.3, 1: 0.4},
        "gpu_recipe_source_only": {0: 0.4, 1: 0.5},
        "recipe_without": {0: 0.1, 20: 0.5, 21: 0.6},
        "recipe_dann": {0: 0.1, 20: 0.6, 24: 0.7},
        "gpu_recipe_target_only": {0: 0.98845, 1: 0.98855},  # .9885, rounded as percent are
    }
    monkeypatch.setattr(results_tables, "by_seed", made_up(**rows))
    _, _, row, *_ = results_tables.results().splitlines()
    cells = [".150", ".250", ".350", ".450", ".550", ".650"]
    last = results_tables.percent(0.98845, 0.98855)[:4]
    assert row == (
        f"| MNIST → MNIST-M | {' | '.join(f'{cell} ± .071' for cell in cells)} "
        f"| .{last.replace('.', '')} ± .000 |"
    )


def test_what_a_part_adds_is_on_the_seeds_of_both(monkeypatch):
    rows = {"recipe_dann": {0: 0.9, 1: 0.8, 20: 0.1}, "recipe_without": {0: 0.85, 1: 0.76, 7: 0.5}}
    monkeypatch.setattr(results_tables, "by_seed", made_up(**rows))
    _, _, *table = results_tables.recipe_parts().splitlines()
    told = "the adversary | `schedule.high=0` | 80.5 ± 6.4% | 85.0 ± 7.1% | +4.5 ± 0.7 | 0, 1 |"
    assert table == [f"| {task} | {told}" for task in results_tables.TASKS.values()]


def test_the_means_of_the_scores_are_with_and_without_the_changed_task(monkeypatch):
    def runs_of_task(experiment, scores, seeds=10):
        return [
            Result(
                experiment,
                f"m{seed}",
                seed,
                "",
                "A → B",
                9,
                "",
                {
                    "target/accuracy": seed / 10,
                    **{f"score/{n}": s * seed for n, s in scores.items()},
                },
            )
            for seed in range(seeds)
        ]

    right = {"agreement": 1, "info_max": 1, "source_accuracy": -1}
    results = [
        *runs_of_task("a_to_b", right),
        *runs_of_task("mnist_to_mnist_m", {**right, "info_max": -1}, 11),
        *runs_of_task("without_agreement", {"info_max": 1, "source_accuracy": 1}),
    ]
    monkeypatch.setattr(results_tables, "all_results", lambda: results)
    head, _, *rows = results_tables.scores_in_short().splitlines()
    assert "mean of 2 comparisons (21 runs)" in head
    assert rows == [
        "| `agreement` | 1.00 | 0.0 | 0.0 | 0.0 | 0.0 |",
        "| `info_max` | 0.00 | 50.0 | 50.0 | 0.0 | 0.0 |",
        "| `source_accuracy` | -1.00 | 95.0 | 95.0 | 90.0 | 90.0 |",
    ]
