"""The page that is made of results, in Markdown."""

import collections
import statistics
from collections.abc import Collection, Sequence
from typing import Any

from dann.experiments.markdown_table import markdown_table
from dann.experiments.published_section import published_section
from dann.experiments.results import CHOSEN, Result, mean_measure
from dann.experiments.row_names import row_names
from dann.experiments.scores_section import scores_section
from dann.experiments.summary_section import summary_section
from dann.selection import SCORES

_BEGINNING = """# {title}

`{command}` makes this page from [{table}]({table}), which has a row for each run
and measure. Accuracies are on the target's test set, after the last step where nothing else is
said; no seed was picked. Target labels fill these columns and train the rows marked as an oracle;
no other training and no score reads them.
"""
_EACH_TASK = """## Each task

The augmentations `..._blend` and `..._mix`, which the experiments `digits_mnist_...`,
`digits_usps_...` and `teacher_...` have, mix source images with unlabelled target images, except in
the rows of source only and the oracle. Those two are trained without an experiment's regularizers
(`regularizer=none`). A row with `selection.keep` has the epoch that this score chose.

How to read the first table of a task:

- "Target accuracy" is the mean over the seeds with their sample standard deviation.
- "Gap closed" is (method - source only) / (train on target - source only), of the means. It is
  empty where that gap is no larger than the spread of either, and where a row's arguments change
  more than the method, its strength and regularizers.
- Seconds are the mean training time; CPU seconds count all threads.
- "First" has the steps and CPU seconds after which each seed's target accuracy first reached the
  number in the column's head; "not recorded" where a run ended above it without a curve.

The second table has the mean target accuracy after the epoch that each score of `dann.selection`
puts first without target labels. Beside it stand the last epoch and the best one, which only an
oracle finds.
"""
_ENDS = ("source_only", "target_only")  # of the gap that adapting can close
_OF_THE_METHOD = ("method", "schedule", "regularizer")
_HEADS = (
    "method",
    "target accuracy",
    "n",
    "each seed",
    "source accuracy",
    "gap closed",
    "steps",
    "seconds",
    "CPU seconds",
    "published",
)


def results_page(
    results: Sequence[Result],
    settings: Any,
    noted: Collection[str] = (),
    table: str = "results.csv",
    overrides: Sequence[str] = (),
) -> str:
    """Returns the page of results, in Markdown.

    Args:
        results: The results.
        settings: Object with `title`; the `command` that makes the page; `note`, a paragraph or "";
            `summary`, the experiments to show in the table on top; `bars`, for an experiment the
            target accuracy that the page reports the first passing of; `published`, target
            accuracies of the literature by experiment and method, `None` for one that is not known;
            `without_adversary`, for a method the one that is the same at strength 0; `causes`, what
            makes a row differ from what is published; and `names` of methods with arguments.
            `page` in `conf/reproduce.yaml` and `conf/page/` have them.
        noted: Experiments that `experiments.md` beside the page has a section on, which is linked.
        table: Name of the file of results beside the page.
        overrides: More arguments that every run had.
    """
    more = f" 'overrides=[{','.join(overrides)}]'" if overrides else ""
    published, names = settings.published, settings.names
    command = f"{settings.command}{more}"
    parts = [_BEGINNING.format(title=settings.title, command=command, table=table)]
    parts += [f"{settings.note}\n"] if settings.note else []
    parts += summary_section(results, settings)
    parts += [*published_section(results, settings), *([_EACH_TASK] if results else [])]
    for experiment, title in _titles(results).items():
        of_it = [result for result in results if result.experiment == experiment]
        command = " ".join([f"experiment={experiment}", "method=...", *overrides])
        bar = settings.bars.get(experiment)
        section = _section(title, command, of_it, bar, published.get(experiment), names)
        if experiment in noted:
            section += f"\n[What was tried and seen](experiments.md#{experiment}).\n"
        parts.append(section)
    parts += scores_section(results)
    return "\n".join(parts)


def _titles(results):
    """Titles by experiment: its domains, with its name where another one has the same domains."""
    domains = {result.experiment: result.domains for result in results}
    shared = [pair for pair, times in collections.Counter(domains.values()).items() if times > 1]
    return {e: f"{pair} ({e})" if pair in shared else pair for e, pair in domains.items()}


def _section(title, command, results, bar, published, names):
    methods: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: r.seed):
        methods.setdefault(result.method, []).append(result)
    accuracies = {m: [r.target_accuracy for r in rs] for m, rs in methods.items()}
    order = sorted(methods, key=lambda m: (methods[m][0].is_oracle, m != "source_only", m))
    called = row_names(results, names)
    rows = [
        _row(called[method], methods[method], _gap_closed(method, accuracies), published)
        for method in order
    ]
    heads = [*_HEADS]
    if bar is not None:
        heads.append(f"first {bar:.4f}")
        passings = [_passings(methods[method], bar) for method in order]
        rows = [[*row, passed] for row, passed in zip(rows, passings, strict=True)]
    lines = [f"## {title}", "", f"`python scripts/train.py {command}`", ""]
    lines += [markdown_table(heads, rows), *_meanings(order, names)]
    lines += _chosen({called[method]: methods[method] for method in order})
    hardware = sorted({result.hardware for result in results})
    lines += ["", f"Hardware: {'; '.join(hardware)}.", ""]
    return "\n".join(lines)


def _meanings(methods, names):
    """Lines that tell the arguments of the methods that have a name of their own."""
    told = [f"- {names[method]}: `method={method}`" for method in methods if method in names]
    return ["", *told] if told else []


def _row(name, results, gap_closed, published):
    method = results[0].method
    accuracies = [result.target_accuracy for result in results]
    spread = f" ± {statistics.stdev(accuracies):.4f}" if len(results) > 1 else ""
    return [
        name,
        f"{statistics.mean(accuracies):.4f}{spread}",
        str(len(results)),
        " ".join(f"{result.seed}: {result.target_accuracy:.4f}" for result in results),
        f"{mean_measure(results, 'source/accuracy'):.4f}",
        gap_closed,
        " ".join(f"{steps:,}" for steps in sorted({result.steps for result in results})),
        f"{mean_measure(results, 'seconds'):,.0f}",
        f"{mean_measure(results, 'cpu_seconds'):,.0f}",
        f"{published[method]:.4f}" if published and published.get(method) is not None else "",
    ]


def _chosen(rows):
    """Lines of the table of the scores' choices, for the scores that all runs of a row have."""
    measures = {"last": "target/accuracy", **{score: f"{CHOSEN}{score}" for score in SCORES}}
    measures["best (oracle)"] = "oracle/best"
    means = {
        name: {
            title: mean
            for title, measure in measures.items()
            if (mean := mean_measure(results, measure)) is not None
        }
        for name, results in rows.items()
    }
    means = {name: of_row for name, of_row in means.items() if SCORES.keys() & of_row.keys()}
    if not means:
        return []
    titles = [title for title in measures if any(title in of_row for of_row in means.values())]
    rows = [
        [name, *(f"{of_row[title]:.4f}" if title in of_row else "" for title in titles)]
        for name, of_row in means.items()
    ]
    return ["", markdown_table(["epoch chosen by", *titles], rows)]


def _gap_closed(method, accuracies):
    name, *arguments = method.split()
    ends = [accuracies.get(end, []) for end in _ENDS]
    alike = all(argument.lstrip("+").startswith(_OF_THE_METHOD) for argument in arguments)
    if name in _ENDS or not alike or not all(ends):
        return ""
    low, high = map(statistics.mean, ends)
    spread = max(statistics.stdev(end) if len(end) > 1 else 0.0 for end in ends)
    if high - low <= spread:
        return ""
    return f"{(statistics.mean(accuracies[method]) - low) / (high - low):.1%}"


def _passings(results, bar):
    told = []
    for result in results:
        cost = "never" if result.target_accuracy < bar else "not recorded"
        if "bar/steps" in result.measures:
            steps, seconds = (result.measures[f"bar/{of}"] for of in ("steps", "cpu_seconds"))
            cost = f"{steps:,.0f} steps, {seconds:,.0f} s"
        told.append(f"{result.seed}: {cost}")
    return "; ".join(told)
