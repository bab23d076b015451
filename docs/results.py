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
    "teacher: MNIST\n→ MNIST-M": "teacher_mnist_to_mnist_m",
    "teacher: MNIST\n→ USPS": "teacher_mnist_to_usps",
    "teacher: USPS\n→ MNIST": "teacher_usps_to_mnist",
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
    return summarize(results).drop(columns="mean").to_csv(index=False)


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
    """Draws the chart: one row per task, one mark per method."""
    table = summarize(results)
    figure = Figure(figsize=(4.8, 5.2), layout="constrained")
    axes = figure.subplots()
    rows = table["experiment"].map([*TASKS.values()].index)
    main = dict(zip((*MAIN, REFERENCE), ("s", "D", "o", "|"), strict=True))
    colors = dict(zip(main, ("#7f8799", "#b8863b", "#4051b5", "k"), strict=True))
    is_other = ~table["method"].str.startswith((*main, "source only"))
    axes.plot(table["mean"][is_other], rows[is_other], "o", color="#4051b5", fillstyle="none")
    for method, marker in main.items():
        is_row = table["method"] == method
        options = {"color": colors[method], "markersize": 14 if marker == "|" else 8}
        axes.plot(table["mean"][is_row], rows[is_row], marker, label=method, **options)
    axes.plot([], [], "o", color="#4051b5", fillstyle="none", label="other methods")
    axes.set_yticks(range(len(TASKS)), TASKS)
    axes.invert_yaxis()
    axes.set(xlim=(60, 100.5), xlabel="target accuracy (%) after the last step")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
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
