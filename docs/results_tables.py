"""The tables of `docs/results.csv` and `docs/results-gpu.csv`, which `docs/tables.py` writes.

`results` is in the README; `default_run` and `default_run_seeds` are the runs of the default,
`default_search` those that it was chosen from;
`scores_among_runs` is how well each score ranks runs, and `scores_in_short` some rows of that;
`recipe_runs` are the recipe's three tasks, `recipe_parts` what each of its parts adds;
`cpu_and_gpu` are the settings that ran on both;
`binarized_errors` and `binarized_adapted` are binarized networks beside their float twins.
"""

import functools
import pathlib
import statistics
from decimal import Decimal

from omegaconf import OmegaConf

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import read_results
from dann.experiments.row_names import row_names
from dann.experiments.score_choices import score_choices
from dann.experiments.scores_section import scores_section
from dann.experiments.summary_section import WITHOUT

TABLE = pathlib.Path(__file__).with_name("results.csv")
REPRODUCE = TABLE.parents[1] / "conf/reproduce.yaml"
ON_GPU = TABLE.with_name("results-gpu.csv")  # by JAX; all in the other by TensorFlow on CPUs
TASKS = {
    "mnist_to_mnist_m": "MNIST → MNIST-M",
    "mnist_to_usps": "MNIST → USPS",
    "usps_to_mnist": "USPS → MNIST",
}
DEFAULT_RUN = {
    "source_only": "source only",
    WITHOUT: "strength 0",
    "dann": "DANN",
    "target_only": "oracle",
}
FLOAT = " network.binary=false"
PUBLISHED = {
    "mnist_to_mnist_m": "mnist_to_mnist_m",
    "mnist_to_usps": "protocol_mnist_to_usps",
    "usps_to_mnist": "protocol_usps_to_mnist",
}
WITH_RECIPE = {
    "source_only": "recipe: source only †",
    WITHOUT: "recipe: strength 0",
    "dann": "recipe",
    "target_only": "recipe: oracle †",
}
RECIPE = "teacher_mnist_to_mnist_m"
UNSEEN = range(20, 25)  # the recipe's seeds on which nothing had run before its settings were final
PARTS = {
    WITHOUT: "the adversary",
    "dann regularizer=mcc": "the teacher",
    "dann regularizer=self_ensembling_balanced": "MCC",
    "dann augmentation.source=[{_target_:dann.layers.RandomConvolution,rate:.5}]": (
        "shifts, turns and zooms"
    ),
    "dann augmentation=affine_zoom_mix": "random convolutions",
    "dann augmentation=affine_convolution": "source images mixed with target images",
    "dann network.backbone.instance_norm=false": "instance normalization",
    "dann balanced=false": "the source's classes in equal parts",
}


@functools.cache
def all_results(table=TABLE):
    """Every run in a table of results."""
    return read_results(table)


def runs_of(experiment, method, table=TABLE):
    """The runs of a row, by their seeds in order."""
    found = [r for r in all_results(table) if (r.experiment, r.method) == (experiment, method)]
    return {run.seed: run for run in sorted(found, key=lambda run: run.seed)}


def by_seed(experiment, method, table=TABLE):
    """The target accuracies of a row, by seed."""
    return {s: run.target_accuracy for s, run in runs_of(experiment, method, table).items()}


def results():
    """The published settings and the recipe: target accuracies and their standard deviations.

    The recipe and its strength 0 on unseen seeds alone.
    """
    rows = []
    for task, name in TASKS.items():
        cells = [by_seed(PUBLISHED[task], method) for method in ("source_only", WITHOUT, "dann")]
        recipe = {
            method: by_seed(f"teacher_{task}", method, ON_GPU if "†" in head else TABLE)
            for method, head in WITH_RECIPE.items()
        }
        for method in (WITHOUT, "dann"):
            recipe[method] = {s: share for s, share in recipe[method].items() if s in UNSEEN}
        cells += recipe.values()
        rows.append([name, *(as_decimals(found.values()) for found in cells)])
    heads = ["", "source only", "strength 0", "DANN", *WITH_RECIPE.values()]
    return markdown_table(heads, rows)


def default_run():
    """The mean target accuracy of the default run and its standard deviation, by method."""
    shares = [by_seed("digits_to_photos", method).values() for method in DEFAULT_RUN]
    return markdown_table([*DEFAULT_RUN.values()], [[percent(*row) for row in shares]])


def default_search():
    """The settings that the default was chosen from, and what the scores say of them."""
    rate = "optimizer.learning_rate.initial_learning_rate="
    settings = {
        f"dann {rate}.02": (".02", ".3"),
        f"dann {rate}.05": (".05", ".3"),
        "dann": (".1 (chosen)", ".3"),
        f"dann {rate}.2": (".2", ".3"),
        "dann schedule.high=1": (".1", "1"),
    }
    rows = []
    for method, told in settings.items():
        runs = [run.measures for run in runs_of("digits_to_photos_search", method).values()]
        cells = [
            with_error([measures[f"score/{score}"] for measures in runs], digits)
            for score, digits in (("agreement", 4), ("info_max", 3))
        ]
        rows.append([*told, *cells])
    return markdown_table(["rate", "strength up to", "agreement (kappa)", "InfoMax"], rows)


def default_run_seeds():
    """The target accuracies of the default run, seed by seed."""
    of = {method: by_seed("digits_to_photos", method) for method in DEFAULT_RUN}
    gains = {seed: share - of["source_only"][seed] for seed, share in of["dann"].items()}
    rows = [
        [str(seed), *(percent(shares[seed]) for shares in of.values()), f"{100 * gain:+.1f}"]
        for seed, gain in gains.items()
    ]
    means = [percent(*shares.values()) for shares in of.values()]
    rows.append(["mean ± standard deviation", *means, points(*gains.values())])
    return markdown_table(["seed", *DEFAULT_RUN.values(), "points gained over source only"], rows)


def recipe_runs():
    """The recipe on its three tasks: accuracies in percent, and what they cost.

    The seeds that earlier choices had run on have a row of their own, and so have the unseen ones.
    """
    measures = ["target/accuracy", "chosen/info_max", "oracle/best"]
    rows = []
    for task, name in TASKS.items():
        of_all = runs_of(f"teacher_{task}", "dann")
        for unseen in (False, True):
            of = {seed: run for seed, run in of_all.items() if (seed in UNSEEN) == unseen}
            seeds, runs = ", ".join(map(str, of)), [*of.values()]
            means = [percent(*(run.measures[measure] for run in runs)) for measure in measures]
            lowest = percent(min(run.target_accuracy for run in runs))
            minutes = f"{statistics.mean(run.measures['cpu_seconds'] for run in runs) / 60:.0f}"
            steps = f"{max(run.steps for run in runs):,}"
            hardware = "; ".join(sorted({run.hardware for run in runs}))
            rows.append([name, seeds, means[0], lowest, *means[1:], steps, minutes, hardware])
    heads = ["", "seeds", "last step", "lowest", "InfoMax's epoch", "best epoch (oracle)"]
    return markdown_table([*heads, "steps", "CPU minutes", "hardware"], rows)


def recipe_parts():
    """What each part adds to the recipe on a task, over the seeds that ran with and without it."""
    rows = []
    for task, name in TASKS.items():
        whole = by_seed(f"teacher_{task}", "dann")
        for method, part in PARTS.items():
            without = by_seed(f"teacher_{task}", method)
            both = [seed for seed in without if seed in whole]
            if both:
                shares = [percent(*(of[seed] for seed in both)) for of in (without, whole)]
                added = points(*(whole[seed] - without[seed] for seed in both))
                row = [*shares, added, ", ".join(map(str, both))]
                rows.append([name, part, f"`{method.removeprefix('dann ')}`", *row])
    heads = ["", "without", "", "target accuracy without it", "with it", "it adds, points", "seeds"]
    return markdown_table(heads, rows)


def cpu_and_gpu():
    """The rows that ran on CPUs and on a GPU: target accuracies and the seconds of training."""
    names = row_names(all_results(ON_GPU), OmegaConf.load(REPRODUCE).page.names)
    rows = []
    for experiment, method in dict.fromkeys((r.experiment, r.method) for r in all_results(ON_GPU)):
        both = [[*runs_of(experiment, method, table).values()] for table in (TABLE, ON_GPU)]
        if not all(both):
            continue
        [steps] = {run.steps for runs in both for run in runs}
        shares = [percent(*(run.target_accuracy for run in runs)) for runs in both]
        measures = zip(both, ("cpu_seconds", "seconds"), strict=True)
        times = [statistics.mean(run.measures[name] for run in runs) for runs, name in measures]
        seeds = " and ".join(str(len(runs)) for runs in both)
        costs = [f"{steps:,}", *(f"{seconds:,.0f}" for seconds in times)]
        rows.append([f"`{experiment}`: {names[method]}", *shares, seeds, *costs])
    heads = ["TensorFlow, CPU", "JAX, GPU", "seeds", "steps", "CPU seconds", "GPU seconds"]
    return markdown_table(["", *heads], rows)


def binarized_errors():
    """The test errors of the binarized networks and of their float twins in classification."""
    rows = []
    for network in ("binary_lenet", "binary_mlp"):
        experiment = f"mnist_{network}"
        errors = [
            {seed: 1 - accuracy for seed, accuracy in by_seed(experiment, method).items()}
            for method in ("source_only", f"source_only{FLOAT}")
        ]
        steps = {run.steps for run in all_results() if run.experiment == experiment}
        both = [percent(*error.values(), digits=2) for error in errors]
        means = [statistics.mean(error.values()) for error in errors]
        difference = f"{100 * (means[0] - means[1]):.2f} points"
        rows.append([f"`{network}`", f"{max(steps):,}", *both, difference])
    return markdown_table(["", "steps", "binary", "its float twin", "difference"], rows)


def binarized_adapted():
    """What a binarized network and its float twin gain by adapting."""
    rows = []
    for name, more in {"`binary_lenet`": "", "its float twin": FLOAT}.items():
        methods = [f"source_only{more}", f"dann{more} schedule.high=0", f"dann{more}"]
        shares = [by_seed(f"{RECIPE}_binary", method) for method in methods]
        gains = [shares[2][seed] - share for seed, share in shares[0].items()]
        rows.append([name, *(percent(*row.values()) for row in shares), points(*gains)])
    heads = ["", "source only", "DANN, strength 0", "DANN", "points gained over source only"]
    return markdown_table(heads, rows)


def scores_among_runs():
    """How well each score ranks the runs of a task, as on the page of the results."""
    [section] = scores_section(all_results())
    lines = section.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("| score |"))
    return "\n".join(lines[first : lines.index("", first)])


def scores_in_short():
    """The means of the two recommended scores and of the baseline, with and without a task.

    The task is `mnist_to_mnist_m`, whose settings were changed after its accuracies had been seen.
    """
    changed = "mnist_to_mnist_m"
    choices = score_choices(all_results())
    others = [task for task in choices.compared if task != changed]
    runs = sum(choices.runs[task] for task in choices.compared)
    heads = [
        "score",
        f"rank correlation, mean of {len(choices.compared)} comparisons ({runs} runs)",
        "points lost",
        "by setting",
        f"points lost without `{changed}`",
        "by setting",
    ]
    rows = []
    for score in ("agreement", "info_max", "source_accuracy"):
        mean, mean_of_others = (choices.mean(score, of) for of in (choices.compared, others))
        regrets = [*mean[1:], *mean_of_others[1:]]
        rows.append(
            [f"`{score}`", f"{mean.correlation:z.2f}", *(f"{100 * lost:.1f}" for lost in regrets)]
        )
    return markdown_table(heads, rows)


def as_decimals(accuracies):
    """The mean and the sample standard deviation, rounded as in percent, as .981 ± .002."""
    if not accuracies:
        return ""
    numbers = percent(*accuracies).removesuffix("%").split(" ± ")
    return " ± ".join(f"{Decimal(number) / 100:.3f}".removeprefix("0") for number in numbers)


def percent(*shares, digits=1):
    """The mean in percent, with the sample standard deviation if there are several."""
    return f"{mean_and_deviation(shares, f'.{digits}f')}%"


def with_error(values, digits):
    """The mean with its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {error:.{digits}f}"


def points(*differences):
    """The mean in points with its sign, with the sample standard deviation if there are several."""
    return mean_and_deviation(differences, "+.1f")


def mean_and_deviation(shares, form):
    """A hundred times the mean in a form, and the sample standard deviation if there are more."""
    hundredths = [100 * share for share in shares]
    deviation = f" ± {statistics.stdev(hundredths):{form.lstrip('+')}}" if shares[1:] else ""
    return f"{statistics.mean(hundredths):{form}}{deviation}"


MADE = {
    made.__name__: made
    for made in (
        results,
        default_run,
        default_run_seeds,
        default_search,
        recipe_runs,
        recipe_parts,
        cpu_and_gpu,
        binarized_errors,
        binarized_adapted,
        scores_among_runs,
        scores_in_short,
    )
}
