"""Writes the table of docs/results.md, results-table.csv and the chart.

python docs/results.py

It reads results.csv and results-gpu.csv.
"""

import pathlib
import re

import pandas
from matplotlib.figure import Figure
from omegaconf import OmegaConf

DOCS = pathlib.Path(__file__).parent
REGION = re.compile(r"(?<=<!-- results -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
CONTROL = "dann schedule.high=0"
ADVERSARIAL = ["dann", "cdan", "cdan_e", "sdat", "els", "mdan", "wdgrl", "daln"]
ADVERSARIAL += ["mcd", "mdd", "fdal"]
MAIN = "source only", "control: reversal off", "DANN"
REFERENCE = "target labels (reference)"
NAMES = {
    "source_only": "source only",
    "source_only network.backbone.bottleneck_units=null": "source only, no bottleneck",
    CONTROL: "control: reversal off",
    **{method: method.upper() for method in ADVERSARIAL},
    "cdan_e": "CDAN+E",
    "fdal": "f-DAL",
    "target_only": REFERENCE,
}
TASKS = {
    "demo: digits\n→ photos": "digits_to_photos",
    "MNIST →\nMNIST-M": "mnist_to_mnist_m",
    "MNIST →\nUSPS": "protocol_mnist_to_usps",
    "USPS →\nMNIST": "protocol_usps_to_mnist",
    "best recipe:\nMNIST → MNIST-M": "teacher_mnist_to_mnist_m",
    "best recipe:\nMNIST → USPS": "teacher_mnist_to_usps",
    "best recipe:\nUSPS → MNIST": "teacher_usps_to_mnist",
}


def read():
    """Returns one row per run; GPU runs are used where no CPU runs exist."""
    cpu, gpu = (pandas.read_csv(DOCS / name) for name in ("results.csv", "results-gpu.csv"))
    is_new = ~(gpu["experiment"] + gpu["method"]).isin(cpu["experiment"] + cpu["method"])
    return pandas.concat([cpu, gpu[is_new]])


def summarize(results):
    """Returns one row per task and method, in the order of `TASKS` and `NAMES`."""
    published = dict(OmegaConf.load(DOCS.parent / "conf/reproduce.yaml").published)
    methods = [*NAMES, *(method for row in published.values() for method in row)]
    order = {name: position for position, name in enumerate(dict.fromkeys(methods))}
    order |= {name: position for position, name in enumerate(TASKS.values())}
    rows = results[results["experiment"].isin(TASKS.values()) & results["method"].isin(methods)]
    rows = rows.sort_values(["experiment", "method"], key=lambda names: names.map(order))
    table = []
    for (experiment, method), runs in rows.groupby(["experiment", "method"], sort=False):
        table.append(
            {
                "experiment": experiment,
                "method": format_method(method),
                "last step": format_percent(runs["target/accuracy"]),
                "epoch chosen by InfoMax": format_percent(runs["chosen/info_max"]),
                "best epoch (needs labels)": format_percent(runs["oracle/best"]),
                "published": format_percent([published.get(experiment, {}).get(method)]),
                "seeds": runs["seed"].nunique(),
                "backend": "JAX" if runs["hardware"].str.contains("jax").all() else "TensorFlow",
                "mean": 100 * runs["target/accuracy"].mean(),
                "std": 100 * runs["target/accuracy"].std(),
            }
        )
    return pandas.DataFrame(table)


def format_table(results):
    """Returns the Markdown table: accuracies after the last step, one row per task."""
    table = summarize(results)
    rows = []
    for name, experiment in TASKS.items():
        runs = table[table["experiment"] == experiment].set_index("method")
        cells = [runs["last step"].get(method, "") for method in (*MAIN, REFERENCE)]
        rows.append([name.replace("\n", " "), *cells, runs["published"]["DANN"]])
    return format_markdown_table(["task", *MAIN, "target labels", "DANN, published"], rows)


def format_table_file(results):
    """Returns all methods and epochs as CSV."""
    return summarize(results).drop(columns=["mean", "std"]).to_csv(index=False)


def format_method(method):
    """Returns the name that the page uses for a method with its overrides."""
    return NAMES.get(method) or f"{NAMES.get(method.split()[0])}, TLlib's heads"


def format_percent(values):
    """Formats the mean of shares in percent, with the sample standard deviation of several."""
    percent = 100 * pandas.Series(list(values), dtype=float).dropna()
    if percent.empty:
        return ""
    spread = f" ± {percent.std():.1f}" if len(percent) > 1 else ""
    return f"{percent.mean():.1f}{spread}"


def format_markdown_table(headers, rows):
    """Formats cells of text as a Markdown table, without a final line break."""
    lines = [f"|{'|'.join(cells)}|" for cells in (headers, *rows)]
    lines.insert(1, "|" + "---|" * len(headers))
    return "\n".join(lines)


def draw(results):
    """Draws the chart: one band per task, one line of marks per method, with its deviation."""
    table = summarize(results)
    figure = Figure(figsize=(4.8, 6.6), layout="constrained")
    axes = figure.subplots()
    rows = table["experiment"].map([*TASKS.values()].index)
    main = dict(zip((*MAIN, REFERENCE), ("s", "D", "o", "|"), strict=True))
    colors = dict(zip(main, ("#7f8799", "#b8863b", "#4051b5", "k"), strict=True))
    for line, (method, marker) in enumerate(main.items()):
        runs = table[table["method"] == method]
        options = {"color": colors[method], "markersize": 10 if marker == "|" else 6}
        heights = rows[runs.index] - 0.36 + 0.14 * line
        axes.errorbar(runs["mean"], heights, None, runs["std"], marker, label=method, **options)
    adversaries = table[~table["method"].str.startswith((*main, "source only"))]
    rank = adversaries.groupby("experiment")["mean"].rank(method="first") - 1
    heights = rows[adversaries.index] + 0.2 + 0.06 * (rank % 4)  # on four lines
    options = {"color": "#4051b5", "fillstyle": "none", "markersize": 4}
    label = "other methods (means; see the CSV)"
    axes.plot(adversaries["mean"], heights, "o", label=label, **options)
    axes.set_yticks(range(len(TASKS)), TASKS)
    axes.set_ylim(len(TASKS) - 0.5, -0.5)
    for boundary in range(1, len(TASKS)):
        axes.axhline(boundary - 0.5, color="0.7", linewidth=0.8)
    label = "target accuracy (%) after the last step\nmean ± 1 standard deviation over seeds"
    axes.set(xlim=(56, 100.5), xlabel=label)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(DOCS / "images/results.png", dpi=200)


def update_page(text, results):
    """Returns the page with its table replaced."""
    return REGION.sub(lambda _: f"\n{format_table(results)}\n", text)


def main():
    """Writes the page and the chart."""
    results, page = read(), DOCS / "results.md"
    page.write_text(update_page(page.read_text(), results))
    (DOCS / "results-table.csv").write_text(format_table_file(results))
    draw(results)


if __name__ == "__main__":
    main()
