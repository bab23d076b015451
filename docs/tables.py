"""Writes what follows from the package's registries and from `conf/`: tables and lists of names.

python docs/tables.py            fills every marked region
python docs/tables.py --check    names the files that are out of date, and fails if there are any

A page marks where a table stands and which columns it has:

    <!-- table: scores | name, summary -->
    <!-- end -->

The name is that of a registry in a room's `__init__`, such as `SCORES`, in small letters. A column
is `name`, `in Python` (what is registered, with its arguments), `summary`, or a fact of the
entries; `method=` is the name under a head that shows how a command line says it. The table
`groups` lists the choices for `conf/train.yaml`; `supported_networks`, `supported_methods`,
`supported_labels` and `supported_messages` are what `tests/test_users_matrix.py` tries. The tables
of `docs/results.csv` and `docs/results-gpu.csv` are in `docs/results_tables.py`, those of
`docs/notes.csv` in `docs/notes_tables.py`.
`lacking` is what the marks in `tests/support/lacking.py` say; `performance_step` and its likes are
what a suite of `benchmarks/` has put into `docs/performance.json`.

A number in a sentence is marked too: `<!-- winning.APART -->.35<!-- = -->` is a constant of a
module of `dann.diagnostics`, `<!-- conflict/ratio low -->.1<!-- = -->` the end of a healthy range.
`docs/results_figures.py` lists the marks of figures that come from the results.

Editors and type checkers do not run the registration of methods and regularizers. The imports for
them, under `if TYPE_CHECKING` in `dann/adaptation/__init__.py`, are written too.
"""

import functools
import importlib
import math
import pathlib
import pkgutil
import re
import statistics
import sys

import notes_tables
import results_figures
import results_tables
from omegaconf import OmegaConf

import dann
from benchmarks import record
from dann.adaptation import METHODS, REGULARIZERS
from dann.diagnostics.healthy_ranges import healthy_ranges
from dann.experiments.markdown_table import markdown_table
from dann.registry import Registry

ROOT = pathlib.Path(__file__).parents[1]
LINE_LENGTH = 100
HEADS = {
    "summary": "what it does",
    "when": "when to pick it",
    "command": "on the command line",
}
REGION = re.compile(
    r"^(<!-- table: (\w+)(?: \| (.+?))? -->\n).*?^(<!-- end -->)$", re.MULTILINE | re.DOTALL
)
REGION_MARK = re.compile(r"(?<!`)<!-- (?:table: |end -->)")  # but not one in code
NAMES = re.compile(r"(if TYPE_CHECKING:  # written by docs/tables.py\n)(?: {4}.*\n)*")
MARK = re.compile(r"<!-- (?!table: |matrix: |end -->|= -->)")
FIGURE = re.compile(r"(<!-- (\w+): ([^>]+) -->)[-+±.\d ]*(?=<!-- = -->)")
THRESHOLD = re.compile(r"(<!-- (\S+)([. ])(\w+) -->)[-.\d]+(?=<!-- = -->)")


def registries():
    """Every registry of the package, by the name it has in small letters."""
    found = {}
    for room in pkgutil.walk_packages(dann.__path__, "dann."):
        if room.ispkg:
            module = importlib.import_module(room.name)
            things = {name: getattr(module, name) for name in dir(module)}
            found.update({n.lower(): t for n, t in things.items() if isinstance(t, Registry)})
    return found


def pages():
    """Every page that may hold a table."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]


def packages():
    """The packages whose names the registration gives, with the module that each name is from."""
    classes = {*METHODS.values(), *REGULARIZERS.values()}
    return {
        ROOT / "dann/adaptation/__init__.py": {cls.__name__: cls.__module__ for cls in classes},
    }


def renewed(known):
    """Every file of which parts are written here, with the text that it should have."""
    texts = {page: filled(page.read_text(), known) for page in pages()}
    return texts | {path: named(path.read_text(), names) for path, names in packages().items()}


def named(text, names):
    """A package's text with the imports for type checkers written anew, as Ruff has them."""
    rows = []
    for name, module in sorted(names.items(), key=lambda n: (n[1], not n[0].isupper(), n[0])):
        row = f"    from {module} import {name} as {name}"
        if len(row) > LINE_LENGTH:
            row = f"    from {module} import (\n        {name} as {name},\n    )"
        rows.append(f"{row}\n")
    return NAMES.sub(lambda match: match[1] + "".join(rows), text)


def filled(text, known):
    """Returns a page's text with every marked table and number written anew."""

    def write(match):
        head, name, columns, end = match.groups()
        table = MADE[name]() if name in MADE else registered(name, known, columns)
        return f"{head}\n{table}\n\n{end}"

    marks = len(REGION_MARK.findall(text))
    text, regions = REGION.subn(write, text)
    if marks != 2 * regions:
        raise ValueError(
            "Each table must stand between the lines <!-- table: name --> and <!-- end -->. "
            f"Received: {marks} such lines, and {regions} tables between two of them"
        )
    text, figures = FIGURE.subn(figure, text)
    text, thresholds = THRESHOLD.subn(threshold, text)
    begun, ended = len(MARK.findall(text)), text.count("<!-- = -->")
    if not begun == figures + thresholds == ended:
        raise ValueError(
            "Each mark must have the form <!-- kind: ... -->0<!-- = --> in one line. Received: "
            f"{begun} beginnings and {ended} ends, of which {figures + thresholds} have that form"
        )
    return text


def figure(match):
    """A marked figure with its number from the results."""
    head, kind, rows = match.groups()
    return head + results_figures.figure(kind, rows)


def threshold(match):
    """A marked threshold with its number from the code."""
    head, place, dot, name = match.groups()
    if dot == ".":
        number = getattr(importlib.import_module(f"dann.diagnostics.{place}"), name)
    else:
        number = getattr({one.name: one for one in healthy_ranges()}[place], name)
    return head + re.sub(r"\b0\.", ".", f"{number:g}")


def registered(name, known, columns):
    """A table with a row for each entry of a registry, and the columns of its mark."""
    if name not in known or not columns:
        raise ValueError(
            f"A table must be one of {[*MADE]}, or one of {[*known]} with ` | ` and its columns. "
            f"Received: {name}{f' | {columns}' if columns else ''}"
        )
    registry, columns = known[name], [column.strip() for column in columns.split(",")]
    heads = [f"`{column}`" if "=" in column else HEADS.get(column, column) for column in columns]
    entries = sorted(registry.entries(), key=lambda entry: entry.facts.get("order", math.inf))
    rows = [[cell(entry, column) for column in columns] for entry in entries]
    return markdown_table(heads, rows)


def cell(entry, column):
    """What a table says of an entry in one column."""
    if column == "in Python":
        arguments = entry.facts.get("arguments", {})
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"`{entry.thing.__name__}({given})`" if given else f"`{entry.thing.__name__}`"
    if column == "name" or column.endswith("="):
        return f"`{entry.name}`"
    value = entry.summary if column == "summary" else entry.facts.get(column)
    if column == "command" and value:
        return f"`{value}`"
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    if isinstance(value, tuple | list):
        return ", ".join(f"`{part}`" for part in value)
    return str(value).replace("|", "\\|")


def groups():
    """The groups of `conf/train.yaml` with their choices."""
    defaults = OmegaConf.load(ROOT / "conf/train.yaml").defaults
    rows = []
    for group in sorted(key for entry in defaults if OmegaConf.is_dict(entry) for key in entry):
        choices = sorted(path.stem for path in ROOT.glob(f"conf/{group}/*.yaml"))
        rows.append([f"`{group}`", ", ".join(f"`{choice}`" for choice in choices)])
    return markdown_table(["group", "choices"], [row for row in rows if "," in row[1]])


def supported_networks():
    """What comes of each backbone with each kind of inputs."""
    matrix = users_matrix()

    def cell(backbone, kind):
        why = matrix.impossible(backbone, kind)
        return ("–" + note(why)) if why else outcome(matrix.told_of_network(backbone, kind))

    heads = ["backbone", *matrix.INPUTS]
    return markdown_table(
        heads, [[b, *(cell(b, i) for i in matrix.INPUTS)] for b in matrix.BACKBONES]
    )


def supported_methods():
    """What comes of each method with each kind of inputs."""
    matrix = users_matrix()
    told = {
        method.name: [matrix.told_of_method(method.name, kind) for kind in matrix.INPUTS]
        for method in matrix.METHODS
    }
    rows = [[f"`{name}`", *map(outcome, row)] for name, row in told.items()]
    return markdown_table(["method", *matrix.INPUTS], rows)


def supported_labels():
    """What comes of each kind of labels in each kind of data."""
    matrix = users_matrix()
    rows = [
        [labels, *(outcome(matrix.told_of_labels(labels, source)) for source in matrix.SOURCES)]
        for labels in matrix.LABELS
    ]
    return markdown_table(["labels", *matrix.SOURCES], rows)


def supported_messages():
    """The messages that the other tables number."""
    messages = [shown for shown, _ in users_matrix().MESSAGES.values()]
    return markdown_table(["", "message"], [[str(i), text] for i, text in enumerate(messages, 1)])


def outcome(told):
    """`yes`, or the stages that refuse with the numbers of their messages."""
    return ", ".join(f"no `{stage}`{note(name)}" for stage, name in told.items()) or "yes"


def note(name):
    """The number of a message."""
    return f" ({list(users_matrix().MESSAGES).index(name) + 1})"


def performance(suite):
    """What a suite measured: its table, its chart and on what."""
    kept = record.read(record.PLACE)[suite]
    rows, remarks = [], []
    for one in record.comparisons_of(kept["comparisons"]):
        for number, (way, times) in enumerate(one.times.items()):
            ratios = one.ratios(way)
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            least = [three_digits(1000 * min(part)) for part in (times.cpu, times.wall)]
            task = "" if number else one.task
            rows.append([task, way, *least, spread, one.notes.get(way, "")])
        remarks += [f"- {one.task}: {one.remark}."] if one.remark else []
    heads = ["what", "by", "CPU ms", "wall ms", "times the reference (range)", ""]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    versions = ", ".join(f"{name} {version}" for name, version in kept["packages"].items())
    rounds = len(next(iter(one.times.values())).cpu)
    told = f"{kept['hardware']}; {kept['processes']} processes, {rounds} rounds in all; {versions}."
    picture = f"![{suite}](images/performance_{suite}.png)"
    return "\n\n".join(
        filter(None, [markdown_table(heads, rows), "\n".join(remarks), picture, told])
    )


def three_digits(number):
    """A number with three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def lacking():
    """What a backend lacks, from the marks that leave tests out there."""
    marks = vars(of_tests("lacking")).values()
    return markdown_table(["backend", "lacks"], [m.args for m in marks if hasattr(m, "args")])


def users_matrix():
    """The combinations that the tests try."""
    return of_tests("users_matrix")


def of_tests(module):
    """A module of `tests/support`."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    return importlib.import_module(f"support.{module}")


MADE = {
    "groups": groups,
    "lacking": lacking,
    **results_tables.MADE,
    **notes_tables.MADE,
    **{
        f"performance_{suite}": functools.partial(performance, suite)
        for suite in record.read(record.PLACE)
    },
    "supported_networks": supported_networks,
    "supported_methods": supported_methods,
    "supported_labels": supported_labels,
    "supported_messages": supported_messages,
}


def main():
    """Writes the tables and lists, or checks them."""
    known = registries()
    stale = {path: text for path, text in renewed(known).items() if text != path.read_text()}
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if "--check" in sys.argv[1:]:
        sys.exit(f"Run `python docs/tables.py`: {names} out of date." if stale else 0)
    for path, text in stale.items():
        path.write_text(text)
    print(f"Written: {names or 'nothing'}")


if __name__ == "__main__":
    main()
