"""Writes the table of docs/results.md and its chart from results.csv and results-gpu.csv.

python docs/results.py
"""

import pathlib
import re

import pandas
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dann.experiments.results import format_results

DOCS = pathlib.Path(__file__).parent
REGION = re.compile(r"(?<=<!-- results -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
CONTROL = "dann schedule.high=0"
ADVERSARIAL = ["dann", "cdan", "cdan_e", "sdat", "els", "mdan", "wdgrl", "daln"]
ADVERSARIAL += ["mcd", "mdd", "fdal"]
NAMES = {
    "source_only": "source only",
    "source_only network.backbone.bottleneck_units=null": "source only, no bottleneck",
    CONTROL: "control: reversal off",
    **{method: method.upper() for method in ADVERSARIAL},
    "cdan_e": "CDAN+E",
    "fdal": "f-DAL",
    "target_only": "trained on target labels (reference)",
}
BARS = {
    "default run:\ndigits →\nphotos": "digits_to_photos",
    "MNIST →\nMNIST-M": "mnist_to_mnist_m",
    "MNIST →\nUSPS": "protocol_mnist_to_usps",
    "USPS →\nMNIST": "protocol_usps_to_mnist",
    "teacher recipe:\nMNIST →\nMNIST-M": "teacher_mnist_to_mnist_m",
    "teacher recipe:\nMNIST →\nUSPS": "teacher_mnist_to_usps",
    "teacher recipe:\nUSPS →\nMNIST": "teacher_usps_to_mnist",
}


def read():
    """Returns one row per run; GPU runs are used where no CPU runs exist."""
    cpu, gpu = (pandas.read_csv(DOCS / name) for name in ("results.csv", "results-gpu.csv"))
    is_new = ~(gpu["experiment"] + gpu["method"]).isin(cpu["experiment"] + cpu["method"])
    return pandas.concat([cpu, gpu[is_new]])


def format_table(results):
    """Returns the Markdown table, in the order of `BARS` and `NAMES`."""
    published = dict(OmegaConf.load(DOCS.parent / "conf/reproduce.yaml").published)
    methods = [*NAMES, *(method for row in published.values() for method in row)]
    order = {name: position for position, name in enumerate(dict.fromkeys(methods))}
    order |= {name: position for position, name in enumerate(BARS.values())}
    rows = results[results["experiment"].isin(BARS.values()) & results["method"].isin(methods)]
    rows = rows.sort_values(["experiment", "method"], key=lambda names: names.map(order))
    daggers = rows["hardware"].str.contains("jax").map({True: " †", False: ""})
    rows = rows.assign(method=rows["method"].map(format_method) + daggers)
    for experiment, row in published.items():
        published[experiment] = {format_method(method): row[method] for method in row}
    return format_results(rows, published)


def format_method(method):
    """Returns the name that the page uses for a method with its overrides."""
    return NAMES.get(method) or f"{NAMES.get(method.split()[0])}, TLlib's heads"


def draw(results):
    """Draws the chart: source only, control and DANN on each task."""
    runs = results.replace({"method": NAMES}).set_index(["experiment", "method"])
    runs = (100 * runs["target/accuracy"]).groupby(level=[0, 1])
    names = [NAMES[method] for method in ("source_only", CONTROL, "dann")]
    means = runs.mean().unstack().loc[BARS.values(), names]
    deviations = runs.std().unstack().loc[BARS.values(), names]
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    colors = ["#9aa0b5", "#c9a26b", "#4051b5"]
    means.plot.bar(ax=axes, yerr=deviations, color=colors, width=0.8, capsize=2, rot=0)
    axes.set(ylim=(0, 100), ylabel="target accuracy (%)", xlabel="")
    axes.set_xticklabels(BARS, fontsize=8)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    figure.savefig(DOCS / "images/results.png", dpi=100)


def update_page(text, results):
    """Returns the page with its table replaced."""
    return REGION.sub(lambda _: f"\n{format_table(results)}\n", text)


def main():
    """Writes the page and the chart."""
    results, page = read(), DOCS / "results.md"
    page.write_text(update_page(page.read_text(), results))
    draw(results)


if __name__ == "__main__":
    main()
