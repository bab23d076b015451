"""Writes the table of docs/results.md and its chart from results.csv and results-gpu.csv.

python docs/results.py
"""

import pathlib
import re

import pandas
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dann.experiments.results import BEST, CHOSEN, markdown_table, percent

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
    "mcd": "MCD",
    "mdd": "MDD",
    "fdal": "f-DAL",
    "target_only": "trained on target labels (upper bound)",
}
EXPERIMENTS = ["digits_to_photos", "mnist_to_mnist_m"]
EXPERIMENTS += ["protocol_mnist_to_usps", "protocol_usps_to_mnist"]
EXPERIMENTS += [
    f"teacher_{task}" for task in ("mnist_to_mnist_m", "mnist_to_usps", "usps_to_mnist")
]
HEADS = ["method", "seeds", "last step", "InfoMax's epoch", "best epoch *", "published"]
BARS = {
    "default run:\ndigits → photos": "digits_to_photos",
    "MNIST →\nMNIST-M": "mnist_to_mnist_m",
    "MNIST → USPS": "protocol_mnist_to_usps",
    "USPS → MNIST": "protocol_usps_to_mnist",
    "mean teacher:\nMNIST → MNIST-M": "teacher_mnist_to_mnist_m",
    "mean teacher:\nMNIST → USPS": "teacher_mnist_to_usps",
    "mean teacher:\nUSPS → MNIST": "teacher_usps_to_mnist",
}


def read():
    """Both tables, without runs of a method on the GPU that a CPU has run."""
    runs = (pandas.read_csv(DOCS / name) for name in ("results.csv", "results-gpu.csv"))
    cpu, gpu = (one.melt(RUN, var_name="measure").dropna() for one in runs)
    done = set(zip(cpu["experiment"], cpu["method"], strict=True))
    new = [key not in done for key in zip(gpu["experiment"], gpu["method"], strict=True)]
    return pandas.concat([cpu, gpu[new]])


def values(results, experiment, method, measure="target/accuracy"):
    """The values of a measure over the seeds."""
    rows = results[(results["experiment"] == experiment) & (results["method"] == method)]
    return rows[rows["measure"] == measure].set_index("seed")["value"]


def table(results):
    """The table in Markdown, a row for each method of each experiment."""
    published = OmegaConf.load(DOCS.parent / "conf/reproduce.yaml").published
    rows = []
    for experiment in EXPERIMENTS:
        figures = published.get(experiment, {})
        of_experiment = results[results["experiment"] == experiment]
        rows.append([f"**`{experiment}`**", *[""] * 5])
        methods = {**dict.fromkeys(NAMES), **dict.fromkeys(figures)}
        for method in methods:
            accuracies = values(of_experiment, experiment, method)
            if accuracies.empty:
                continue
            name = NAMES.get(method) or f"{NAMES[method.split()[0]]}, TLlib's heads"
            dagger = " †" if "jax" in hardware_of(of_experiment, method) else ""
            told = [values(of_experiment, experiment, method, one) for one in (CHOSEN, BEST)]
            figure = percent([figures[method]]) if method in figures else ""
            seeds = ", ".join(map(str, accuracies.index))
            rows.append([name + dagger, seeds, *map(percent, (accuracies, *told)), figure])
    return markdown_table(HEADS, rows)


def hardware_of(results, method):
    """What a method ran on."""
    return results[results["method"] == method]["hardware"].iloc[0]


def draw(results):
    """The chart: source only, control and DANN for each task."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots()
    colors = {"source_only": "#9aa0b5", CONTROL: "#c9a26b", "dann": "#4051b5"}
    for place, (method, color) in enumerate(colors.items()):
        found = [100 * values(results, one, method) for one in BARS.values()]
        at = [number + 0.27 * (place - 1) for number in range(len(BARS))]
        means, spreads = [one.mean() for one in found], [one.std() for one in found]
        axes.bar(at, means, 0.25, yerr=spreads, color=color, label=NAMES[method], capsize=2)
    axes.set(ylim=(50, 100), ylabel="target accuracy, %")
    axes.set_xticks(range(len(BARS)), BARS, fontsize=7)
    axes.legend(loc="lower right", fontsize=8, ncols=3)
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
