"""Compares methods on natural shifts; writes the tables and the chart of docs/when-to-adapt.md.

python docs/when_to_adapt.py <folder with vaderSentiment-3.3.2.tar.gz, mnist/, usps/ and bsds500/>

What is in docs/when-to-adapt.csv is not trained again. The watch's data needs the extra `seglearn`.
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
from dann.training.predictions import accuracies

DOCS = pathlib.Path(__file__).parent
CSV = DOCS / "when-to-adapt.csv"
REGION = re.compile(r"<!-- (gains|tasks) -->.*?<!-- end -->", re.DOTALL)
TEXTS = "tweets", "amazon", "films", "nyt"
FEW, OTHERS = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)
PEOPLE = {"people 1-5 → 6-10": (FEW, OTHERS), "people 6-10 → 1-5": (OTHERS, FEW)}
SPLITS = {"image_size": 16} | dict.fromkeys(["source_split", "target_split"], "train[:6000]")
SPLITS |= dict.fromkeys(["source_test_split", "target_test_split"], "test[:2000]")
STEPS = 500
MEASURE = "target/balanced_accuracy"
COLUMNS = ["task", "setting", "seed", "source/balanced_accuracy", "target/accuracy", MEASURE]
COLUMNS += ["selection/info_max", "selection/agreement"]
RISING, LOW = GaninSchedule(STEPS), GaninSchedule(STEPS, high=0.3)


def with_mcc(*given, strength):
    """DANN and MCC, of which each model has its own."""
    return dann.DANN(*given, strength=strength, regularizers=dann.MCC())


JUDGED = {  # the candidates of `recommend` when it was judged
    "DANN, rising to 1": partial(dann.DANN, strength=RISING),
    "DANN, rising to .3": partial(dann.DANN, strength=LOW),
    "CDAN, rising to 1": partial(dann.CDAN, strength=RISING),
    "DANN + MCC, rising to 1": partial(with_mcc, strength=RISING),
}
CONTROL = {"reversal off": partial(dann.DANN, strength=0.0)}
SEARCHED = {  # the two defaults came after `recommend, searched`
    "DANN": dann.DANN,
    "DANN, .3": partial(dann.DANN, strength=0.3),
    "DANN, rising to .1": partial(dann.DANN, strength=GaninSchedule(STEPS, high=0.1)),
    "DANN + MCC, rising to .3": partial(with_mcc, strength=LOW),
    "CDAN": dann.CDAN,
    "CDAN, rising to .3": partial(dann.CDAN, strength=LOW),
}
OTHER_METHODS = {
    "CDAN+E": partial(dann.CDAN, entropy_conditioning=True),
    "SDAT": partial(dann.CDAN, task_radius=0.05),
    "ELS": partial(dann.DANN, domain_label_smoothing=0.1),
    "MADA": dann.MADA,
    "MCD": dann.MCD,
    "MDD": dann.MDD,
    "DALN": dann.DALN,
    "f-DAL": dann.FDAL,
    "WDGRL": dann.WDGRL,
    "PADA": dann.PADA,
}
GROUPS = {"": JUDGED, ", searched": SEARCHED, ", other methods": OTHER_METHODS}
SETTINGS = [*CONTROL, *SEARCHED, *OTHER_METHODS, *JUDGED, "average"]
RECOMMENDED = [f"recommend{group}" for group in GROUPS]
OF_TASKS = ["source_only", "DANN", "CDAN", "SDAT", "DANN, rising to 1", "DANN + MCC, rising to 1"]
OF_TASKS += ["average", "recommend", "target_only"]


def tasks(folder):
    """What reads the domains, makes a backbone for a shape of inputs and is trained, by task."""
    mlp = partial(dann.networks.mlp_backbone, hidden_units=(128, 128))
    series = partial(dann.networks.time_series_backbone, filters=(32, 64, 32))
    cnn = partial(dann.networks.cnn_backbone, filters=(16, 32), units=100)
    found = {"digits → photos": (lambda: dann.data.digits_to_photos("~/.cache/dann"), cnn)}
    for pair in (("mnist", "usps"), ("usps", "mnist"), ("mnist", "mnist_m")):
        load = partial(dann.data.tfds_pair, *pair, data_dir=folder, **SPLITS)
        found[" → ".join(pair)] = load, cnn
    for name, pair in PEOPLE.items():
        found[name] = partial(dann.data.smartwatch_activities, *pair), series
    for pair in itertools.permutations(TEXTS, 2):
        load = partial(dann.data.sentiment, *pair, data_dir=folder)
        found[" → ".join(pair)] = load, mlp
    return found


def read():
    """The runs so far."""
    return pandas.read_csv(CSV) if CSV.exists() else pandas.DataFrame({"task": [], "setting": []})


def train(folder):
    """Adds the runs that the table lacks. Of texts, without batch normalization, no control."""
    runs = read()
    for task, (load, network) in tasks(folder).items():
        known = set(runs["setting"][runs["task"] == task])
        for group, methods in GROUPS.items():
            if methods is SEARCHED and not task.startswith(TEXTS):
                methods = CONTROL | SEARCHED
            if not {*methods} <= known:
                domains = load()
                backbone = partial(network, domains.input_shape)
                found = dann.compare(domains, methods, backbone=backbone, steps=STEPS)
                rows = pandas.concat([found.runs, kept(found, domains, f"recommend{group}")])
                rows = rows[~rows["setting"].isin(known)].assign(task=task)[COLUMNS].round(4)
                runs = pandas.concat([runs, rows.sort_values(["setting", "seed"])])
                runs.to_csv(CSV, index=False)
                known |= {*rows["setting"]}
    return runs


def kept(found, domains, setting):
    """A row of what is recommended: one network of all seeds."""
    inputs, labels = domains.target_test
    classes = found.classifier.predict(inputs[:], verbose=0).argmax(axis=1)
    row = {f"target/{name}": share for name, share in accuracies(labels, classes).items()}
    return pandas.DataFrame([{"setting": setting, **row}])


def gains(runs):
    """Points over the source alone, a row a task and seed, a column a setting."""
    means = runs.pivot(index=["task", "seed"], columns="setting", values=MEASURE)
    found = means.dropna(subset="source_only")
    found[RECOMMENDED] = means[RECOMMENDED].groupby("task").transform("max")
    return 100 * found.sub(found["source_only"], axis=0)[SETTINGS + RECOMMENDED]


def of_settings(found):
    """Mean gains, the least mean of a task, and the share of runs that lost over a point."""
    texts = found.index.get_level_values("task").str.startswith(TEXTS)
    told = {"texts": found[texts].mean(), "others": found[~texts].mean(), "all": found.mean()}
    told["worst task"] = found.groupby("task").mean().min()
    told["lost over 1 (%)"] = 100 * (found < -1).sum() / found.count()
    return table("points over source only", pandas.DataFrame(told))


def of_tasks(runs):
    """Mean balanced accuracies on the target, a row a task."""
    means = runs.groupby(["task", "setting"], sort=False)[MEASURE].mean().unstack()
    return table("task", 100 * means[OF_TASKS])


def table(name, numbers):
    """The numbers in Markdown, with their index as the first column."""
    rows = numbers.map("{:.1f}".format).replace("nan", "").reset_index().to_numpy().tolist()
    return format_markdown_table([name, *numbers], rows)


def draw(found):
    """The chart: gain over the source alone, a dot a task, a row a setting."""
    points = found.groupby("task").mean()
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot(points.T, found.columns, "o", color="#4051b5", fillstyle="none")
    axes.plot(points.mean(), found.columns, "|", color="#e0701b", markersize=16)
    axes.axvline(0, color="0.6", linewidth=1)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_xlabel("points of balanced accuracy over source only; a dot a task, a bar the mean")
    figure.savefig(DOCS / "images/when-to-adapt.png", dpi=100)


def written(text, runs):
    """The page with its tables written anew."""
    told = {"gains": of_settings(gains(runs)), "tasks": of_tasks(runs)}
    return REGION.sub(lambda at: f"<!-- {at[1]} -->\n\n{told[at[1]]}\n\n<!-- end -->", text)


def main(folder):
    """Trains what lacks, and writes the page and the chart."""
    runs, page = train(folder), DOCS / "when-to-adapt.md"
    page.write_text(written(page.read_text(), runs))
    draw(gains(runs))


if __name__ == "__main__":
    main(sys.argv[1])
