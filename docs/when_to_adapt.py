"""Compares methods on natural shifts; writes the tables and the chart of docs/when-to-adapt.md.

python docs/when_to_adapt.py <folder with vaderSentiment-3.3.2.tar.gz, mnist/, usps/ and bsds500/>

Runs that are already in docs/when-to-adapt.csv are not repeated. The smartwatch data requires the
extra `seglearn`.
"""

import itertools
import pathlib
import re
import sys
from functools import partial

import pandas
from matplotlib.figure import Figure

import dann
from dann.experiments.results import format_markdown_table
from dann.schedules import GaninSchedule
from dann.training.evaluation import compute_accuracies

DOCS = pathlib.Path(__file__).parent
CSV = DOCS / "when-to-adapt.csv"
REGION = re.compile(r"<!-- (gains|tasks) -->.*?<!-- end -->", re.DOTALL)
TEXTS = "tweets", "amazon", "films", "nyt"
FIRST, LAST = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)
PEOPLE = {"people 1-5 → 6-10": (FIRST, LAST), "people 6-10 → 1-5": (LAST, FIRST)}
SPLITS = {"image_size": 16} | dict.fromkeys(["source_split", "target_split"], "train[:6000]")
SPLITS |= dict.fromkeys(["source_test_split", "target_test_split"], "test[:2000]")
STEPS = 500
MEASURE = "target/balanced_accuracy"
COLUMNS = ["task", "setting", "seed", "source/balanced_accuracy", "target/accuracy", MEASURE]
COLUMNS += ["selection/info_max", "selection/agreement"]
RISING, LOW = GaninSchedule(STEPS), GaninSchedule(STEPS, high=0.3)


def dann_with_mcc(*args, strength):
    """Returns a DANN with an MCC regularizer of its own; models must not share regularizers."""
    return dann.DANN(*args, strength=strength, regularizers=dann.MCC())


JUDGED = {  # the candidates of `recommend` when it was judged
    "DANN, rising to 1": partial(dann.DANN, strength=RISING),
    "DANN, rising to 0.3": partial(dann.DANN, strength=LOW),
    "CDAN, rising to 1": partial(dann.CDAN, strength=RISING),
    "DANN + MCC, rising to 1": partial(dann_with_mcc, strength=RISING),
}
CONTROL = {"reversal off": partial(dann.DANN, strength=0.0)}
SEARCHED = {  # the defaults of DANN and CDAN were added after `recommend, searched`
    "DANN": dann.DANN,
    "DANN, 0.3": partial(dann.DANN, strength=0.3),
    "DANN, rising to 0.1": partial(dann.DANN, strength=GaninSchedule(STEPS, high=0.1)),
    "DANN + MCC, rising to 0.3": partial(dann_with_mcc, strength=LOW),
    "CDAN": dann.CDAN,
    "CDAN, rising to 0.3": partial(dann.CDAN, strength=LOW),
}
OTHER_METHODS = {
    "CDAN+E": partial(dann.CDAN, entropy_conditioning=True),
    "SDAT": partial(dann.CDAN, task_radius=0.05),
    "ELS": partial(dann.DANN, domain_label_smoothing=0.1),
    "f-DAL": dann.FDAL,
}
PLAIN = dann.MCD, dann.MDD, dann.DALN, dann.WDGRL
OTHER_METHODS |= {method.__name__: method for method in PLAIN}
GROUPS = {"": JUDGED, ", searched": SEARCHED, ", other methods": OTHER_METHODS}
SETTINGS = [*CONTROL, *SEARCHED, *OTHER_METHODS, *JUDGED, "average"]
RECOMMENDED = [f"recommend{group}" for group in GROUPS]
GAIN_ROWS = ["reversal off", "DANN", "DANN, rising to 1", "CDAN", "SDAT", "DALN"]
GAIN_ROWS += ["DANN + MCC, rising to 1", "average", *RECOMMENDED]
TASK_COLUMNS = ["source_only", "DANN", "CDAN", "SDAT", "DANN, rising to 1"]
TASK_COLUMNS += ["DANN + MCC, rising to 1", "average", "recommend", "target_only"]


def make_tasks(folder):
    """Returns, by task, a function that loads the domains and one that builds a backbone."""
    mlp = partial(dann.networks.mlp_backbone, hidden_units=(128, 128))
    time_series = partial(dann.networks.time_series_backbone, filters=(32, 64, 32))
    cnn = partial(dann.networks.cnn_backbone, filters=(16, 32), units=100)
    tasks = {"digits → photos": (lambda: dann.data.digits_to_photos("~/.cache/dann"), cnn)}
    for pair in (("mnist", "usps"), ("usps", "mnist"), ("mnist", "mnist_m")):
        load = partial(dann.data.tfds_pair, *pair, data_dir=folder, **SPLITS)
        tasks[" → ".join(pair)] = load, cnn
    for name, pair in PEOPLE.items():
        tasks[name] = partial(dann.data.smartwatch_activities, *pair), time_series
    for pair in itertools.permutations(TEXTS, 2):
        load = partial(dann.data.sentiment, *pair, data_dir=folder)
        tasks[" → ".join(pair)] = load, mlp
    return tasks


def read():
    """Returns the finished runs, one row per task, setting and seed."""
    return pandas.read_csv(CSV) if CSV.exists() else pandas.DataFrame({"task": [], "setting": []})


def train(folder):
    """Trains the settings that the CSV file lacks, and adds their rows to the file."""
    runs = read()
    for task, (load, network) in make_tasks(folder).items():
        # Text networks have no batch normalization, so reversal off equals source only.
        searched = SEARCHED if task.startswith(TEXTS) else CONTROL | SEARCHED
        for group, methods in (GROUPS | {", searched": searched}).items():
            finished = set(runs["setting"][runs["task"] == task])
            if not {*methods} <= finished:
                domains = load()
                backbone = partial(network, domains.input_shape)
                comparison = dann.compare(domains, methods, backbone=backbone, steps=STEPS)
                inputs, labels = domains.target_test
                logits = comparison.recommended.predict(inputs[:], verbose=0)
                shares = compute_accuracies(labels, logits.argmax(axis=1))
                row = {f"target/{name}": share for name, share in shares.items()}
                recommended = pandas.DataFrame([{"setting": f"recommend{group}", **row}])
                rows = pandas.concat([comparison.runs, recommended])
                rows = rows[~rows["setting"].isin(finished)].assign(task=task)[COLUMNS].round(4)
                runs = pandas.concat([runs, rows.sort_values(["setting", "seed"])])
                runs.to_csv(CSV, index=False)
    return runs


def compute_gains(runs):
    """Returns points over source only: one row per task and seed, one column per setting."""
    accuracy = runs.pivot(index=["task", "seed"], columns="setting", values=MEASURE)
    gains = accuracy.dropna(subset="source_only")
    gains[RECOMMENDED] = accuracy[RECOMMENDED].groupby("task").transform("max")
    return 100 * gains.sub(gains["source_only"], axis=0)[SETTINGS + RECOMMENDED]


def format_gains(gains):
    """Returns the table of mean gains, worst tasks and shares of runs that lost over a point.

    The last two columns describe the tasks on which the setting was run.
    """
    gains = gains[GAIN_ROWS]
    is_text = gains.index.get_level_values("task").str.startswith(TEXTS)
    columns = {"texts": gains[is_text].mean(), "digits and watch": gains[~is_text].mean()}
    columns["all tasks"] = gains.mean(skipna=False)  # empty for settings that lack some tasks
    columns["worst task"] = gains.groupby("task").mean().min()
    columns["runs that lost over 1 point (%)"] = 100 * (gains < -1).sum() / gains.count()
    return format_numbers("points over source only", pandas.DataFrame(columns))


def format_tasks(runs):
    """Returns the table of mean balanced accuracies on the target, one row per task."""
    means = runs.groupby(["task", "setting"], sort=False)[MEASURE].mean().unstack()
    return format_numbers("task", 100 * means[TASK_COLUMNS])


def format_numbers(name, numbers):
    """Returns numbers as a Markdown table whose first column, `name`, is their index."""
    rows = numbers.map("{:.1f}".format).replace("nan", "").reset_index().to_numpy().tolist()
    return format_markdown_table([name, *numbers], rows)


def draw(gains):
    """Draws the chart: gains over source only, one row per setting and one dot per task."""
    points = gains.groupby("task").mean()
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot(points.T, gains.columns, "o", color="#4051b5", fillstyle="none")
    axes.plot(points.mean(), gains.columns, "|", color="#e0701b", markersize=16)
    axes.axvline(0, color="0.6", linewidth=1)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_xlabel("gain in balanced accuracy over source only (points); dot: a task, bar: mean")
    figure.savefig(DOCS / "images/when-to-adapt.png", dpi=100)


def update_page(text, runs):
    """Returns the page with its tables replaced."""
    tables = {"gains": format_gains(compute_gains(runs)), "tasks": format_tasks(runs)}
    return REGION.sub(lambda at: f"<!-- {at[1]} -->\n\n{tables[at[1]]}\n\n<!-- end -->", text)


def main(folder):
    """Trains the missing runs, and writes the page and the chart."""
    runs, page = train(folder), DOCS / "when-to-adapt.md"
    page.write_text(update_page(page.read_text(), runs))
    draw(compute_gains(runs))


if __name__ == "__main__":
    main(sys.argv[1])
