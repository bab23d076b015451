"""The README and the pages in `docs/`: code runs, commands compose, links lead somewhere."""

import importlib.util
import re

import numpy as np
import pages
import pytest

from dann.adaptation import METHODS, REGULARIZERS

PAGES = [
    "README.md",
    *sorted(str(p.relative_to(pages.ROOT)) for p in pages.ROOT.glob("docs/**/*.md")),
]
TEXTS = {path: (pages.ROOT / path).read_text() for path in [*PAGES, "CONTRIBUTING.md"]}
PASTED = "index.md", "getting-started.md", "coming-from.md", "how-to/is-it-working.md"
ALONE = [
    pytest.param(block, id=f"{path}: block {number}")
    for path in ("README.md", *(f"docs/{page}" for page in PASTED))
    for number, (_, block) in enumerate(pages.blocks(TEXTS[path], "python"))
]
TOGETHER = [
    path
    for path in PAGES[1:]
    if path.removeprefix("docs/") not in PASTED and pages.blocks(TEXTS[path], "python")
]
COMMANDS = [
    pytest.param(words, id=f"{path}: {' '.join(words)}")
    for path, text in TEXTS.items()
    for words in pages.commands(text)
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")

quiet = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored")


@quiet
@pytest.mark.tensorflow
@pytest.mark.parametrize("block", ALONE)
def test_a_block_of_the_first_pages_runs_when_it_is_pasted_alone(block, names):
    exec(compile(block, "block", "exec"), {})


@quiet
@pytest.mark.tensorflow
@pytest.mark.parametrize("path", TOGETHER)
def test_the_python_of_a_page_runs_from_top_to_bottom(path, names):
    pages.run_page(path, names)
    if path.endswith("nuisance.md"):
        runs = {
            name: names[name] for name in ("plain", "hidden", "fair", "ageless", "seeing", "blind")
        }
        accuracy, found = ({name: run[i] for name, run in runs.items()} for i in (0, 1))
        assert min(accuracy[name] for name in ("plain", "hidden", "ageless")) > 0.95
        assert found["hidden"]["subject"].score < 0.4 < 0.65 < found["plain"]["subject"].score
        assert accuracy["fair"] > 0.75
        assert found["fair"]["group given the label"].score < 0.6
        assert found["ageless"]["age"].score < 0.2
        assert accuracy["blind"] < accuracy["seeing"] - 0.05
    if path.endswith("series-and-tables.md"):
        assert names["accuracies"]["MDAN"] > names["accuracies"]["SourceOnly"] + 0.2
    if path.endswith("methods.md"):  # beside the best linear fit to the source
        columns = [np.column_stack([names[one], np.ones(512)]) for one in ("source", "target")]
        fit = np.linalg.lstsq(columns[0], names["labels"][0])[0]
        unadapted = np.mean(np.abs(columns[1] @ fit - names["labels"][1]))
        assert unadapted > 1.1
        assert names["error"] < unadapted / 3


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_a_page_is_understood(words):
    pages.check_command(words)


@pytest.mark.parametrize("path", TEXTS)
def test_links_of_a_page_lead_to_files(path):
    folder = (pages.ROOT / path).parent
    found = [link for link in LINK.findall(TEXTS[path]) if not link.startswith("reference/")]
    assert [link for link in found if not (folder / link).exists()] == []


def test_the_pages_are_short():
    assert len(TEXTS["README.md"].split()) <= 900
    assert sum(len(TEXTS[path].split()) for path in PAGES) <= 22_000


@pytest.mark.parametrize("name", sorted({*METHODS, *REGULARIZERS}))
def test_every_method_and_regularizer_is_on_the_page(name):
    assert f"`{name}`" in TEXTS["docs/methods.md"]


@pytest.mark.parametrize("page", ["results", "when-to-adapt"])
def test_the_table_of_a_page_is_that_of_its_runs(page):
    script = page.replace("-", "_")
    spec = importlib.util.spec_from_file_location(script, pages.ROOT / f"docs/{script}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    text = TEXTS[f"docs/{page}.md"]
    assert made.written(text, made.read()) == text, f"run docs/{script}.py"
