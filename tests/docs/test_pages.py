"""Checks the README and `docs/`: code runs, commands compose, links resolve."""

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
STANDALONE_PAGES = "index.md", "getting-started.md", "coming-from.md", "how-to/is-it-working.md"
STANDALONE_BLOCKS = [
    pytest.param(block, id=f"{path}: block {number}")
    for path in ("README.md", *(f"docs/{page}" for page in STANDALONE_PAGES))
    for number, (_, block) in enumerate(pages.blocks(TEXTS[path], "python"))
]
SEQUENTIAL_PAGES = [
    path
    for path in PAGES[1:]
    if path.removeprefix("docs/") not in STANDALONE_PAGES and pages.blocks(TEXTS[path], "python")
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
@pytest.mark.parametrize("block", STANDALONE_BLOCKS)
def test_block_of_first_pages_runs_alone(block, names):
    exec(compile(block, "block", "exec"), {})


@quiet
@pytest.mark.tensorflow
@pytest.mark.parametrize("path", SEQUENTIAL_PAGES)
def test_python_of_page_runs_top_to_bottom(path, names):
    pages.run_page(path, names)
    if path.endswith("nuisance.md"):
        runs = {
            name: names[name] for name in ("plain", "hidden", "fair", "ageless", "seeing", "blind")
        }
        accuracy = {name: run[0] for name, run in runs.items()}
        leakage = {name: run[1] for name, run in runs.items()}
        assert min(accuracy[name] for name in ("plain", "hidden", "ageless")) > 0.95
        assert leakage["hidden"]["subject"].score < 0.4 < 0.65 < leakage["plain"]["subject"].score
        assert accuracy["fair"] > 0.75
        assert leakage["fair"]["group given the label"].score < 0.6
        assert leakage["ageless"]["age"].score < 0.2
        assert accuracy["blind"] < accuracy["seeing"] - 0.05
    if path.endswith("series-and-tables.md"):
        assert names["accuracies"]["MDAN"] > names["accuracies"]["SourceOnly"] + 0.2
    if path.endswith("methods.md"):  # against the best linear fit to the source
        columns = [
            np.column_stack([names[domain], np.ones(512)]) for domain in ("source", "target")
        ]
        fit = np.linalg.lstsq(columns[0], names["labels"][0])[0]
        unadapted = np.mean(np.abs(columns[1] @ fit - names["labels"][1]))
        assert unadapted > 1.1
        assert names["error"] < unadapted / 3


@pytest.mark.parametrize("words", COMMANDS)
def test_command_of_page_is_valid(words):
    pages.check_command(words)


@pytest.mark.parametrize("path", TEXTS)
def test_links_of_page_lead_to_files(path):
    folder = (pages.ROOT / path).parent
    links = [link for link in LINK.findall(TEXTS[path]) if not link.startswith("reference/")]
    assert [link for link in links if not (folder / link).exists()] == []


def test_pages_are_short():
    assert len(TEXTS["README.md"].split()) <= 900
    assert sum(len(TEXTS[path].split()) for path in PAGES) <= 20_000


@pytest.mark.parametrize("name", sorted({*METHODS, *REGULARIZERS}))
def test_methods_page_lists_every_method_and_regularizer(name):
    assert f"`{name}`" in TEXTS["docs/methods.md"]


@pytest.mark.parametrize("page", ["results", "when-to-adapt"])
def test_tables_match_recorded_runs(page):
    script = page.replace("-", "_")
    spec = importlib.util.spec_from_file_location(script, pages.ROOT / f"docs/{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = TEXTS[f"docs/{page}.md"]
    assert module.update_page(text, module.read()) == text, f"run docs/{script}.py"
