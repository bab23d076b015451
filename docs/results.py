"""Writes the table of docs/results.md and its chart from results.csv and results-gpu.csv.

python docs/results.py
"""

import pathlib
import re

import pandas
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dann.experiments.results import summary_table

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
    return summary_table(told, figures)


def name(method):
    """What the page calls a method."""
    return NAMES.get(method) or f"{NAMES.get(method.split()[0])}, TLlib's heads"


def draw(results):
    """The chart: source only, control and DANN for each task."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    colors = {"source_only": "#9aa0b5", CONTROL: "#c9a26b", "dann": "#4051b5"}
    accuracies = results[results["measure"] == "target/accuracy"]
    shares = 100 * accuracies.set_index(["method", "experiment"])["value"]
    for place, (method, color) in enumerate(colors.items()):
        runs = shares[method].groupby("experiment")
        at = [number + 0.27 * (place - 1) for number in range(len(BARS))]
        means, spreads = runs.mean()[BARS.values()], runs.std()[BARS.values()]
        axes.bar(at, means, 0.25, yerr=spreads, color=color, label=NAMES[method], capsize=2)
    axes.set(ylim=(0, 100), ylabel="target accuracy, %")
    axes.set_xticks(range(len(BARS)), BARS, fontsize=8)
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
