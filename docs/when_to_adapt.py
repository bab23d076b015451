"""Writes the tables and the chart of docs/when-to-adapt.md from when-to-adapt.csv.

python docs/when_to_adapt.py

`python benchmarks/natural_tasks.py <folder>` adds runs to when-to-adapt.csv.
"""

import pathlib
import re

import numpy as np
import pandas
from matplotlib.figure import Figure
from results import format_markdown_table

DOCS = pathlib.Path(__file__).parent
REGION = re.compile(r"(?<=<!-- gains -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
GROUPS = {
    "texts": "^(tweets|amazon|films|nyt)",
    "digits, watch": "^(people|mnist|usps|digits)",
    "emoji": "^emoji (?!.*(noto|twemoji))",
    "emoji, held-out pairs": "^emoji .*(noto|twemoji)",  # nothing was chosen on these styles
    "emoji images": "^image (?!.*(noto|twemoji))",
    "emoji images, held-out pairs": "^image .*(noto|twemoji)",
}
TABLE = ["standardized each", "CORAL", "MCC", "control: reversal off", "DANN", "CDAN", "SDAT"]
TABLE += ["standardized each + MCC", "DANN, beta_1 0.9", "SDAT, beta_1 0.9"]
CHART = [*TABLE, "CDAN, beta_1 0.9", "MCC, beta_1 0.5"]
CHART += [
    "standardized each + SDAT",
    "standardized each + DANN",
    "gradient boosting",
    "DALN",
    "MCD",
    "MDD",
    "f-DAL",
    "ELS",
]
CHART += ["CDAN+E", "WDGRL", "DANN, rising to 1"]
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
        yield f"{len(tasks)} {group}", *(values.where(tasks.notna().all()) for values in numbers)


def format_gains(gains):
    """Returns the table: the mean gain and, in parentheses, the worst task."""
    columns = [
        (mean.map("{:+.1f}&ensp;".format) + worst.map("({:+.1f})".format)).rename(group)
        for group, mean, worst, _ in summarize(gains)
    ]
    table = pandas.concat(columns, axis=1).replace(r".*nan.*", "", regex=True)
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
    groups = list(select_groups(gains[CHART].dropna(subset="DANN")))
    rows = [list_finished(groups[first : first + 2]) for first in range(0, len(groups), 2)]
    figure = Figure(figsize=(4.8, 0.17 * sum(map(len, rows)) + 1.8), layout="constrained")
    ratios = [len(names) for names in rows]
    panels = figure.subplots(len(rows), 2, sharey="row", height_ratios=ratios)
    for index, (axes, (group, points)) in enumerate(zip(panels.flat, groups, strict=True)):
        names = rows[index // 2]
        tasks = points[names].groupby("task").mean()
        tasks.loc[:, tasks.isna().any()] = np.nan
        axes.hlines(names, tasks.min(), tasks.max(), color="#9aa5d8", linewidth=3)
        axes.plot(tasks.mean(), names, "o", color="#4051b5", markersize=4)
        axes.axvline(0, color="0.4", linewidth=1)
        axes.set_title(f"{len(tasks)} {group}".replace(", held", ",\nheld"), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x", color="0.9")
    label = "gain in balanced accuracy (points; scales differ)\ndot: mean, bar: worst to best task"
    figure.supxlabel(label, fontsize=9)
    figure.savefig(DOCS / "images/when-to-adapt.png", dpi=160)


def list_finished(groups):
    """Returns the settings of the chart that ran on all tasks of a group."""
    return [name for name in CHART if any(points[name].notna().all() for _, points in groups)]


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
