"""What `docs/tables.py` writes says what the registries say."""

import importlib.util
import statistics
import sys

import pytest
from support import pages

from dann.registry import Registry

SPEC = importlib.util.spec_from_file_location("tables", pages.ROOT / "docs/tables.py")
tables = importlib.util.module_from_spec(SPEC)
sys.path.append(str(pages.ROOT / "docs"))  # as for a script in there
SPEC.loader.exec_module(tables)


@pytest.fixture(scope="module")
def known():
    return tables.registries()


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.name)
def test_a_page_has_the_tables_that_the_registries_give(page, known):
    assert page.read_text() == tables.filled(page.read_text(), known), "run docs/tables.py"


def test_type_checkers_see_the_names_that_the_registries_give():
    for path, names in tables.packages().items():
        assert path.read_text() == tables.named(path.read_text(), names), "run docs/tables.py"


def test_the_front_page_tells_what_the_default_run_gains():
    results_tables = importlib.import_module("results_tables")
    alone, control, ours = (
        results_tables.percent(*results_tables.by_seed("digits_to_photos", m).values()).split()[0]
        for m in ("source_only", "dann schedule.high=0", "dann")
    )
    told = (
        f"{alone}% with the source alone, {control}% with both domains in batch "
        f"normalization, and {ours}% when the adversary joins (mean of seeds 0 to 4)"
    )
    assert told in " ".join((pages.ROOT / "docs/index.md").read_text().split())


def test_the_readme_tells_what_the_adversary_adds():
    results_tables = importlib.import_module("results_tables")

    def gain(experiment):
        of = results_tables.by_seed
        without, ours = of(experiment, results_tables.WITHOUT), of(experiment, "dann")
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


def test_the_readme_tells_what_the_recipe_takes():
    results_tables = importlib.import_module("results_tables")
    runs = [
        run
        for task in results_tables.TASKS
        for run in results_tables.runs_of(f"teacher_{task}", "dann").values()
    ]
    [steps] = {run.steps for run in runs}
    minutes = statistics.mean(run.measures["cpu_seconds"] for run in runs) / 60
    readme = " ".join((pages.ROOT / "README.md").read_text().split())
    assert f"{steps:,} steps, {minutes:.0f} CPU minutes" in readme


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
