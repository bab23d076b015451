"""Checks the README, `docs/` and the notebooks: code runs, commands compose, links resolve."""

import glob
import importlib
import json
import pathlib
import re
import runpy
import types

import pages
import pytest

import dann
from dann.adaptation.adversarial_model import METHODS
from dann.adaptation.regularizers.regularizer import REGULARIZERS

PAGES = ["README.md", *sorted(glob.glob("docs/**/*.md", root_dir=pages.ROOT, recursive=True))]
TEXTS = {path: (pages.ROOT / path).read_text() for path in [*PAGES, "CONTRIBUTING.md"]}
STANDALONE_PAGES = "index.md", "getting-started.md", "coming-from.md", "how-to/is-it-working.md"
# Pages that train for more than 3 s
SLOW_PAGES = "nuisance", "segmentation", "leave-one-out", "adabn", "when-to-adapt", "autoencoder"
SLOW_PAGES += "equal-opportunity", "series-and-tables", "getting-started", "own-images", "selection"
SLOW_PAGES += "deploy-one-bit", "own-model", "sequences", "frozen-features", "is-it-working"
SLOW_PAGES += "coming-from", "oscillation"


def mark(path):
    return [pytest.mark.slow] if pathlib.Path(path).stem in SLOW_PAGES else []


STANDALONE_BLOCKS = [
    pytest.param(block, id=f"{path}: block {number}", marks=mark(path))
    for path in ("README.md", *(f"docs/{page}" for page in STANDALONE_PAGES))
    for number, (_, block) in enumerate(pages.blocks(TEXTS[path], "python"))
]
SEQUENTIAL_PAGES = [
    pytest.param(path, marks=mark(path))
    for path in PAGES[1:]
    if path.removeprefix("docs/") not in STANDALONE_PAGES and pages.blocks(TEXTS[path], "python")
]
COMMANDS = [
    pytest.param(words, id=f"{path}: {' '.join(words)}")
    for path, text in TEXTS.items()
    for words in pages.commands(text)
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture
def names(tmp_path, monkeypatch, cache):
    """Returns an empty namespace; the working folder is new and has the prepared data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prepared").symlink_to(cache)
    return {}


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
        accuracy, leakage = 0, 1  # columns of each run
        assert min(names[name][accuracy] for name in ("plain", "hidden", "hidden_age")) > 0.95
        assert names["hidden"][leakage]["subject"].score < 0.4
        assert names["plain"][leakage]["subject"].score > 0.65
        assert names["fair"][accuracy] > 0.75
        assert names["fair"][leakage]["group given the label"].score < 0.6
        assert names["hidden_age"][leakage]["age"].score < 0.2
        assert names["with_reversal"][accuracy] < names["without"][accuracy] - 0.05
    if path.endswith("autoencoder.md"):
        assert names["hidden"][1].score < 0.45 < 0.9 < names["plain"][1].score
    if path.endswith("equal-opportunity.md"):
        gaps = [abs(names[name][2] - names[name][1]) for name in ("unequal", "equal")]
        assert gaps[1] < gaps[0] - 0.05
    if path.endswith("series-and-tables.md"):
        assert names["accuracies"]["MDAN"] > names["accuracies"]["SourceOnly"] + 0.2
    if path.endswith("methods.md"):
        assert names["error"] < 0.4  # the best linear fit to the source: 1.2


@pytest.mark.parametrize("words", COMMANDS)
def test_command_of_page_is_valid(words):
    pages.check_command(words)


@pytest.mark.parametrize("path", TEXTS)
def test_links_of_page_lead_to_files(path):
    folder = (pages.ROOT / path).parent
    links = [link for link in LINK.findall(TEXTS[path]) if not link.startswith("reference/")]
    assert [link for link in links if not (folder / link).exists()] == []


def test_version_is_the_same_everywhere():
    changelog = (pages.ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == dann.__version__
    assert f"\nversion: {dann.__version__}\n" in (pages.ROOT / "CITATION.cff").read_text()


def test_pages_are_short():
    assert len(TEXTS["README.md"].split()) <= 700
    assert sum(len(TEXTS[path].split()) for path in PAGES) <= 20_000


@pytest.mark.parametrize("name", sorted({*METHODS, *REGULARIZERS}))
def test_methods_page_lists_every_method_and_regularizer(name):
    assert f"`{name}`" in TEXTS["docs/methods.md"]


def test_api_page_lists_every_public_name():
    rows = runpy.run_path(str(pages.ROOT / "docs/hooks.py"))["render_rows"](dann)
    packages = {re.search(r"`([\w.]+)`", row)[1]: row for row in rows}
    assert len(packages) >= 15
    for path, row in packages.items():
        package = importlib.import_module(path)
        names = {name for name in dir(package) if not name.startswith("_")}
        names -= {name for name in names if isinstance(getattr(package, name), types.ModuleType)}
        assert sorted(name for name in names if f"`{name}`" not in row) == []


@pytest.mark.parametrize("page", ["results", "when-to-adapt"])
def test_tables_match_recorded_runs(monkeypatch, page):
    monkeypatch.syspath_prepend(pages.ROOT / "docs")
    script = f"docs/{page.replace('-', '_')}.py"
    functions = runpy.run_path(str(pages.ROOT / script))
    text = TEXTS[f"docs/{page}.md"]
    assert functions["update_page"](text, functions["read"]()) == text, f"run {script}"
    table = (pages.ROOT / f"docs/{page}-table.csv").read_text()
    assert functions["format_table_file"](functions["read"]()) == table, f"run {script}"


REPLACEMENTS = [("steps = 1000", "steps = 300"), (":500", ":100"), ("True], 500", "True], 100")]
REPLACEMENTS += [("total_steps=3200", "total_steps=1600"), ('"epochs": 100', '"epochs": 50')]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["custom-model", "first-adaptation"])
def test_reversal_helps_in_notebook(name, names, capsys):
    notebook = json.loads((pages.ROOT / f"docs/tutorials/{name}.ipynb").read_text())
    cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell) for cell in cells)
    for full, short in REPLACEMENTS:
        code = code.replace(full, short)
    exec(compile(code, name, "exec"), names)
    without, adapted = re.findall(r"target accuracy ([\d.]+)%", capsys.readouterr().out)
    assert float(adapted) > float(without) + 10
