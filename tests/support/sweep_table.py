"""Reads the long table of a sweep or a study."""

import csv


def runs_of(path):
    """Returns a dict for each run, in the order of the table, with its measures by name."""
    runs = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            measure = {row.pop("measure"): row.pop("value")}
            runs[row["run"]] = runs.get(row["run"], row) | measure
    return list(runs.values())
