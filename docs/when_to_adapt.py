"""Writes the tables and the chart of docs/when-to-adapt.md from when-to-adapt.csv.

python docs/when_to_adapt.py

`python benchmarks/natural_tasks.py <folder>` adds runs to when-to-adapt.csv.
"""

import pathlib
import re
import textwrap

import numpy as np
import pandas
from matplotlib.figure import Figure
from results import format_markdown_table

DOCS = pathlib.Path(__file__).parent
REGION = re.compile(r"(?<=<!-- gains -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
GROUPS = {  # with the numbers of tasks
    "12 texts": "^(tweets|amazon|films|nyt)",
    "4 digits, 2 watch": "^(people|mnist|usps|digits)",
    "20 emoji, features": "^emoji (?!.*(noto|twemoji))",
    "22 held-out emoji, features": "^emoji .*(noto|twemoji)",  # not used for any choice
    "20 emoji, pixels": "^image (?!.*(noto|twemoji))",
    "22 held-out emoji, pixels": "^image .*(noto|twemoji)",
}
TABLE = ["standardized each", "CORAL", "MCC", "control: reversal off", "DANN", "CDAN", "SDAT"]
TABLE += ["standardized each + MCC", "DANN, beta_1 0.9", "SDAT, beta_1 0.9"]
LABELS = {name: name.replace("standardized each", "per-domain standardization") for name in TABLE}
# Were not trained on all tasks. The control needs a network with batch normalization.
PARTIAL = "control: reversal off", "DANN, beta_1 0.9", "SDAT, beta_1 0.9"


def read():
    """Returns the finished runs, one row per task, setting and seed."""
    return pandas.read_csv(DOCS / "when-to-adapt.csv")


def compute_gains(runs):
    """Returns points over source only: one row per task and seed, one column per setting."""
    runs = runs.dropna(subset="seed")
    accuracy = runs.pivot(
        index=["task", "seed"], columns="setting", values="target/balanced_accuracy"
    )
    return 100 * accuracy.sub(accuracy["source_only"], axis=0)


def select_groups(gains):
    """Yields the name of each group of tasks with the gains on its tasks."""
    tasks = gains.index.get_level_values("task")
    for group, pattern in GROUPS.items():
        selected = gains[[bool(re.search(pattern, task)) for task in tasks]]
        if len(selected):
            yield group, selected


def summarize(gains):
    """Yields the name of each group, the mean gain, the worst task and the share that lost a point.

    It contains the tasks on which all methods ran.
    """
    complete = gains[TABLE].dropna(subset=[name for name in TABLE if name not in PARTIAL])
    for group, points in select_groups(complete):
        tasks = points.groupby("task").mean()
        numbers = tasks.mean(), tasks.min(), (tasks < -1).mean()
        yield group, *(values.where(tasks.notna().all()) for values in numbers)


def format_gains(gains):
    """Returns the table: the mean gain and, in parentheses, the worst task."""
    columns = [
        (mean.map("{:+.1f}&ensp;".format) + worst.map("({:+.1f})".format)).rename(group)
        for group, mean, worst, _ in summarize(gains)
    ]
    table = pandas.concat(columns, axis=1).replace(r".*nan.*", "", regex=True).rename(LABELS)
    return format_markdown_table(["gain", *table], table.reset_index().to_numpy().tolist())


def format_table_file(runs):
    """Returns the table with the share of tasks that lost over one point, as CSV."""
    gains = compute_gains(runs)
    names = "mean", "worst", "lost"
    columns = {
        f"{group}: {name}": values
        for group, *numbers in summarize(gains)
        for name, values in zip(names, numbers, strict=True)
    }
    return pandas.DataFrame(columns).round(3).to_csv(index_label="gain")


def draw(gains):
    """Draws the chart: one panel per group, one bar per setting from the worst task to the best."""
    groups = select_groups(gains[TABLE].dropna(subset="DANN"))
    rows = [LABELS[name] for name in TABLE]
    figure = Figure(figsize=(4.8, 6.6), layout="constrained")
    panels = figure.subplots(3, 2, sharey=True)
    for axes, (group, points) in zip(panels.flat, groups, strict=True):
        tasks = points.groupby("task").mean()
        tasks.loc[:, tasks.isna().any()] = np.nan
        axes.hlines(rows, tasks.min(), tasks.max(), color="#9aa5d8", linewidth=3)
        axes.plot(tasks.mean(), rows, "o", color="#4051b5", markersize=4)
        for row in np.flatnonzero(tasks.isna().all()):
            axes.text(0, row, " not run", fontsize=7, color="0.4", va="center")
        axes.axvline(0, color="0.4", linewidth=1)
        axes.set_title(textwrap.fill(group, 20), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set(xlim=(-12, 40 if "digits" in group else 16), ylim=(len(rows) - 0.5, -0.5))
        axes.grid(axis="x", color="0.9")
    label = "gain in balanced accuracy (points; other scale for digits, watch)"
    label += "\ndot: mean, bar: worst to best task"
    figure.supxlabel(label, fontsize=9)
    figure.savefig(DOCS / "images/when-to-adapt.png", dpi=160)


def update_page(text, runs):
    """Returns the page with its table replaced."""
    return REGION.sub(lambda _: f"\n{format_gains(compute_gains(runs))}\n", text)


def main():
    """Writes the page and the chart."""
    runs, page = read(), DOCS / "when-to-adapt.md"
    page.write_text(update_page(page.read_text(), runs))
    (DOCS / "when-to-adapt-table.csv").write_text(format_table_file(runs))
    draw(compute_gains(runs))


if __name__ == "__main__":
    main()
