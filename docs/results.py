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
RUN = ["experiment", "method", "seed", "domains", "steps", "hardware"]  # a row of the tables
CONTROL = "dann schedule.high=0"
NAMES = {
    "source_only": "source only",
    "source_only network.backbone.bottleneck_units=null": "source only, no bottleneck",
    CONTROL: "control: reversal off",
    "dann": "DANN",
    "cdan": "CDAN",
    "cdan_e": "CDAN+E",
    "mada": "MADA",
    "sdat": "SDAT",
    "els": "ELS",
    "pada": "PADA",
    "mdan": "MDAN",
    "wdgrl": "WDGRL",
    "daln": "DALN",
    "mcd": "MCD",
    "mdd": "MDD",
    "fdal": "f-DAL",
    "target_only": "trained on target labels (upper bound)",
}
BARS = {
    "default run:\ndigits →\nphotos": "digits_to_photos",
    "MNIST →\nMNIST-M": "mnist_to_mnist_m",
    "MNIST →\nUSPS": "protocol_mnist_to_usps",
    "USPS →\nMNIST": "protocol_usps_to_mnist",
    "mean teacher:\nMNIST →\nMNIST-M": "teacher_mnist_to_mnist_m",
    "mean teacher:\nMNIST →\nUSPS": "teacher_mnist_to_usps",
    "mean teacher:\nUSPS →\nMNIST": "teacher_usps_to_mnist",
}


def read():
    """Both tables, without runs of a method on the GPU that a CPU has run."""
    runs = (pandas.read_csv(DOCS / name) for name in ("results.csv", "results-gpu.csv"))
    cpu, gpu = (one.melt(RUN, var_name="measure").dropna() for one in runs)
    done = set(zip(cpu["experiment"], cpu["method"], strict=True))
    new = [key not in done for key in zip(gpu["experiment"], gpu["method"], strict=True)]
    return pandas.concat([cpu, gpu[new]])


def table(results):
    """The table in Markdown: those experiments and methods, in that order, by the page's names."""
    published = OmegaConf.load(DOCS.parent / "conf/reproduce.yaml").published
    methods = list(dict.fromkeys([*NAMES, *(one for of in published.values() for one in of)]))
    told = results[results["experiment"].isin([*BARS.values()]) & results["method"].isin(methods)]
    told = told.assign(
        experiment=pandas.Categorical(told["experiment"], [*BARS.values()]),
        method=pandas.Categorical(told["method"], methods),
    )
    told = told.sort_values(["experiment", "method"]).astype({"experiment": str})
    daggers = told["hardware"].str.contains("jax").map({True: " †", False: ""})
    told["method"] = told["method"].astype(str).map(name) + daggers
    figures = {one: {name(method): of[method] for method in of} for one, of in published.items()}
    return format_results(told, figures)


def name(method):
    """What the page calls a method."""
    return NAMES.get(method) or f"{NAMES.get(method.split()[0])}, TLlib's heads"


def draw(results):
    """The chart: source only, control and DANN for each task."""
    accuracies = results[results["measure"] == "target/accuracy"].replace({"method": NAMES})
    runs = (100 * accuracies.set_index(["experiment", "method"])["value"]).groupby(level=[0, 1])
    names = [NAMES[one] for one in ("source_only", CONTROL, "dann")]
    means, spreads = (one.unstack().loc[BARS.values(), names] for one in (runs.mean(), runs.std()))
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    colors = ["#9aa0b5", "#c9a26b", "#4051b5"]
    means.plot.bar(ax=axes, yerr=spreads, color=colors, width=0.8, capsize=2, rot=0)
    axes.set(ylim=(0, 100), ylabel="target accuracy, %", xlabel="")
    axes.set_xticklabels(BARS, fontsize=8)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    figure.savefig(DOCS / "images/results.png", dpi=100)


def written(text, results):
    """The page with its table written anew."""
    return REGION.sub(lambda _: f"\n{table(results)}\n", text)


def main():
    """Writes both."""
    results, page = read(), DOCS / "results.md"
    page.write_text(written(page.read_text(), results))
    draw(results)


if __name__ == "__main__":
    main()
