"""The tables of `docs/notes.csv`, which `docs/tables.py` writes: `notes_<table>` for each.

The file holds what was written down by hand from the logs of searches and single runs, a row for
each cell of a table; steps, seeds and hardware are empty where no log tells them. What a run of
`scripts/reproduce.py` measures stands in `docs/results.csv`. `default_on_backends` has some of
both.
"""

import collections
import csv
import functools
import pathlib

from results_tables import by_seed, percent

from dann.experiments.markdown_table import markdown_table

NOTES = pathlib.Path(__file__).with_name("notes.csv")
CIRCUMSTANCES = ("steps", "seeds", "hardware")
ON_BACKENDS = "default_on_backends"  # a table that is not of notes alone
ON_BACKENDS_SEEDS = {"seeds 0 to 4": range(5), "seeds 10 to 14": range(10, 15)}


@functools.cache
def all_notes():
    """The rows of every table, by its name."""
    tables = collections.defaultdict(list)
    with NOTES.open(newline="") as file:
        for row in csv.DictReader(file):
            tables[row.pop("table")].append(row)
    return tables


def notes(table):
    """A table with a row a setting; below it stands what all its rows have in common.

    Raises:
        ValueError: If two notes are on one cell.
    """
    values = all_notes()[table]
    of = {name: {value[name] for value in values} for name in CIRCUMSTANCES}
    varying = [name for name in CIRCUMSTANCES if len(of[name]) > 1]
    measures = list(dict.fromkeys(value["measure"] for value in values))
    cells = collections.defaultdict(dict)
    for value in values:
        row = cells[tuple(value[key] for key in ("setting", *varying))]
        if value["measure"] in row:
            raise ValueError(f"A cell of {table} must have one note. Received another: {value}")
        row[value["measure"]] = value["value"]
    rows = [[*row, *(found.get(name, "") for name in measures)] for row, found in cells.items()]
    shared = [name for name in CIRCUMSTANCES if name not in varying and any(of[name])]
    below = " ".join(f"{name.capitalize()}: {values[0][name]}." for name in shared)
    return "\n\n".join(filter(None, [markdown_table(["", *varying, *measures], rows), below]))


def default_on_backends():
    """The target accuracies of the default run on each backend."""
    tensorflow = by_seed("digits_to_photos", "dann") | by_seed("digits_to_photos_search", "dann")
    backends = collections.defaultdict(dict, TensorFlow=tensorflow)
    for value in all_notes()[ON_BACKENDS]:
        backends[value["setting"]][int(value["seeds"])] = float(value["value"])
    rows = []
    for backend, found in backends.items():
        parts = [[found[seed] for seed in seeds] for seeds in ON_BACKENDS_SEEDS.values()]
        each = [", ".join(f"{100 * share:.1f}" for share in part) for part in parts]
        rows.append([backend, *each, percent(*parts[0], *parts[1])])
    return markdown_table(["backend", *ON_BACKENDS_SEEDS, "all ten"], rows)


MADE = {ON_BACKENDS: default_on_backends} | {
    f"notes_{table}": functools.partial(notes, table)
    for table in all_notes()
    if table != ON_BACKENDS
}
