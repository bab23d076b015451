"""The figures of a run, as PNG files. They are readable without color."""

import pathlib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.spatial.distance import cdist
from sklearn.manifold import TSNE
from sklearn.metrics import confusion_matrix
from threadpoolctl import threadpool_limits

from dann.adaptation.prediction import predict
from dann.data import DomainPair
from dann.data.domain_pair import UNKNOWN
from dann.training.run_directory import RunDirectory
from dann.training.sample_figure import save_samples

_POINTS = 500  # per domain in the figure of the features
_MAX_NAMED_CLASSES = 20  # with more classes, figures show neither names nor numbers
_MAX_NAME = 60  # characters of a class name, without the middle of longer names
_MAX_NAME_IN_PANEL = 16  # characters of a class name between the points
_MAX_LINE = 30  # characters
_CHARACTER_WIDTH = 0.08  # width in inches of a character of 9 points
_CHANCE = {"domain/loss": np.log(2), "domain/accuracy": 0.5}  # of a discriminator that guesses
_GRAY = "0.35"
# Transparent, so that points below are visible.
_LABEL = {"boxstyle": "round,pad=0.1", "facecolor": (1, 1, 1, 0.5), "linewidth": 1.2}


def draw(
    run: RunDirectory,
    domains: DomainPair,
    history: Mapping[str, Sequence[float]],
    epoch_ends: Sequence[int],
    predicted: Mapping[str, np.ndarray],
    views: Sequence["FeaturePanel"],
    seed: int,
) -> None:
    """Draws all figures of a run. A figure that cannot be drawn causes a warning.

    Args:
        run: The run directory, with a summary.
        domains: The data. With nuisances there is one table, so the figures that compare two
            domains are left out.
        history: See `save_curves`.
        epoch_ends: Number of completed steps at the end of each epoch.
        predicted: See `save_confusion`.
        views: See `save_features`. The last one is of the method.
        seed: Seed of the t-SNE.
    """
    curves = history, epoch_ends, domains.num_classes, views[-1].title
    figures: dict[str, Any] = {"curves": partial(save_curves, *curves)}
    if not domains.is_regression:
        figures["confusion"] = partial(save_confusion, domains, predicted, run.summary()["method"])
    if not domains.nuisances:
        figures["samples"] = partial(save_samples, domains)
        figures["features"] = partial(save_features, views, domains, seed)
    for name, save in figures.items():
        try:
            with (
                run.manifest.write(run.figures / f"{name}.png") as path,
                rc_context({"text.parse_math": False}),  # names may contain dollar signs
            ):
                save(path)
        except Exception as error:  # training is complete without the figure
            print(f"warning: no figure {name}: {error}", file=sys.stderr)


def save_curves(
    history: Mapping[str, Sequence[float]],
    epoch_ends: Sequence[int],
    num_classes: int,
    title: str,
    path: str | pathlib.Path,
) -> None:
    """Draws losses, training accuracies, strength and InfoMax over the training steps.

    Args:
        history: Values by name, one per epoch, as in Keras's `History.history`. The names of a
            baseline start with `source_only/`.
        epoch_ends: Number of training steps until the end of each epoch. A training that stopped
            early has fewer epochs.
        num_classes: Number of classes, whose logarithm is the largest possible InfoMax.
        title: Title of the figure, such as the name of the method and its accuracies.
        path: File to write.
    """
    panels = [
        ("loss (nats)", "label/loss", "domain/loss"),
        ("training accuracy", "accuracy", "domain/accuracy"),
        ("strength of the reversal", "strength"),
        (f"InfoMax on the target\n(nats, at most {np.log(num_classes):.2f})", "selection/info_max"),
    ]
    panels = [panel for panel in panels if not history.keys().isdisjoint(panel)]
    columns = 2 if len(panels) == 4 else len(panels)
    rows = len(panels) // columns
    figure = Figure(figsize=(4.6 * columns, 3.2 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for axes, (label, *names) in zip(grid, panels, strict=True):
        styles = ("C0o-", "label classifier"), ("C1s--", "discriminator")
        for name, (style, legend) in zip(names, styles, strict=False):
            if name in history:
                steps = epoch_ends[: len(history[name])]
                options: Any = {"markersize": 3, "clip_on": False}  # no half markers at the edges
                axes.plot(steps, history[name], style, label=legend, **options)
        if values := history.get(f"source_only/{names[0]}"):
            legend = "strength 0" if "source_only/strength" in history else "source only"
            options = {"color": _GRAY, "linewidth": 0.8, "markersize": 4, "clip_on": False}
            options["marker"] = "^" if len(values) < 3 else ""  # a line of one epoch is invisible
            axes.plot(epoch_ends[: len(values)], values, label=legend, **options)
        if names[-1] in _CHANCE and "domain/accuracy" in history:  # critics have no accuracy
            chance = {"color": "0.6", "linestyle": ":", "label": "discriminator at chance"}
            axes.axhline(_CHANCE[names[-1]], **chance)
        axes.set(xlabel="training step", ylabel=label, xlim=(0, None))
        # The whole range, because small changes would look large.
        highest = {"accuracy": 1.02, "selection/info_max": 1.02 * np.log(num_classes)}
        axes.set_ylim(0, highest.get(names[0]))
    figure.axes[0].legend(fontsize=8, framealpha=0.6)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def save_confusion(
    domains: DomainPair, predicted: Mapping[str, np.ndarray], method: str, path: str | pathlib.Path
) -> None:
    """Draws the confusion matrices of both test sets, in percent of each true class.

    If the target has no labels, bars compare the classes that are predicted for the target with the
    true classes of the source.

    Cells of 0% are blank. With more than 20 classes, the figure omits the numbers in the cells and
    the names on the axes.

    Args:
        domains: The data.
        predicted: Predicted class numbers by `"source"`, `"target"` and, if source only was
            trained beside the method, `"source only"` for its predictions for the target. They are
            for the test sets, or for any target examples if the target has no labels.
        method: Name of the method, for the titles, which also contain the accuracies.
        path: File to write.
    """
    classes, names = np.arange(domains.num_classes), _get_class_names(domains)
    names = [textwrap.fill(name, _MAX_LINE) for name in names]
    lines = "\n".join(names).split("\n")
    side = max(5.0, 0.45 * len(names), 0.2 * len(lines)) if names else 6.0
    label_width = _CHARACTER_WIDTH * max(map(len, lines))
    is_rotated = label_width * len(names) > side
    size = len(predicted) * (side + label_width), side + 0.5 + label_width * is_rotated
    figure = Figure(figsize=size, layout="compressed")
    panels = figure.subplots(1, len(predicted), squeeze=False)[0]
    for axes, (name, values) in zip(panels, predicted.items(), strict=True):
        domain = "source" if name == "source" else "target"
        network = method if name == domain else name
        axes.set_xticks(range(len(names)), names, rotation=90 if is_rotated else 0, size=9)
        labels = getattr(domains, f"{domain}_test")[1]
        if labels is None:
            _draw_proportions(axes, domains, values, network)
            continue
        shares = confusion_matrix(labels, values, labels=classes, normalize="true")
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.2)  # above 1, so that 100% is not black
        for row, column in np.argwhere(shares) if names else []:
            share = 100 * shares[row, column]
            color, text = "white" if share > 60 else "black", f"{share:.0f}" if share >= 1 else "<1"
            axes.text(column, row, text, color=color, ha="center", va="center")
        title = f"{getattr(domains, domain)}, {domain} test set"
        axes.set(title=f"{title}\n{network}: accuracy {np.mean(labels == values):.1%}")
        axes.set(xlabel="predicted class, % of the true class", ylabel="true class")
        axes.set_yticks(range(len(names)), names, size=9)
    figure.savefig(path, dpi=120)


def _draw_proportions(axes, domains, predicted, network):
    """Draws the classes of the source's training set beside the classes predicted for the target.

    The bars differ in brightness.
    """
    bars = (
        (domains.source_train[1], f"{domains.source} (source): true classes", "0.75"),
        (predicted, f"{domains.target} (target without labels): predicted by {network}", "#1b4f8f"),
    )
    for width, (classes, label, color) in zip((-0.4, 0.4), bars, strict=True):
        percent = 100 * np.bincount(classes, minlength=domains.num_classes) / len(classes)
        axes.bar(range(len(percent)), percent, width, align="edge", color=color, label=label)
    axes.set(xlabel="class", ylabel="% of all examples", box_aspect=1)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)  # instead of a title


def _get_class_names(domains):
    """Returns the names of the classes, or an empty list if there are too many to show."""
    if domains.num_classes > _MAX_NAMED_CLASSES:
        return []
    names, half = domains.class_names or map(str, range(domains.num_classes)), _MAX_NAME // 2
    return [n if len(n) <= _MAX_NAME else f"{n[: half - 1]}…{n[-half:]}" for n in names]


class FeaturePanel(NamedTuple):
    """Features and predictions of a model for up to 500 examples per domain.

    The examples are test examples and, if there are fewer than 500, also training examples.

    Attributes:
        title: Title of the panel.
        features: Features of the source's examples, then of the target's, `(n + m, num_features)`.
        predicted: Classes predicted for the target's examples, `(m,)`.
    """

    title: str
    features: np.ndarray
    predicted: np.ndarray


def compute_panel(title: str, model: Any, domains: DomainPair) -> FeaturePanel:
    """Computes the features and the predictions of a model of `dann.adaptation`."""
    source, target = (inputs for inputs, _ in _select_examples(domains))
    features = predict(model.backbone, np.concatenate([source, target])).astype("float64")
    return FeaturePanel(title, features, predict(model.classifier, target).argmax(axis=-1))


def _select_examples(domains):
    """Returns inputs and classes of the examples to draw, by domain; unknown classes are -1."""
    source = _select_evenly(domains.source_test, domains.source_train)
    return source, _select_evenly(domains.target_test, (domains.target_train, None))


def _select_evenly(*sets):
    """Selects up to 500 evenly spaced examples, because a set may be sorted by class."""
    parts, remaining = [], _POINTS
    for inputs, labels in sets:
        count = min(len(inputs), remaining)
        remaining -= count
        indices = np.linspace(0, len(inputs) - 1, count).astype(int)
        has_classes = labels is not None and labels.dtype.kind != "f"  # floats in regression
        classes = labels[indices] if has_classes else np.full(count, UNKNOWN)
        if count:
            parts.append((inputs[indices], classes))
    inputs, classes = zip(*parts, strict=True)
    return np.concatenate(inputs), np.concatenate(classes)


def save_features(
    views: Sequence[FeaturePanel], domains: DomainPair, seed: int, path: str | pathlib.Path
) -> None:
    """Draws the features of both domains in two dimensions, by t-SNE, one panel per view.

    Source examples are circles and target examples are crosses, colored by class. If the name of a
    class is long, the classes are numbered, and a legend contains the names. Target examples
    without labels, including the whole training set, have the color of the predicted class, and
    the legend states this. In regression, all examples are gray.

    Args:
        views: The panels.
        domains: The data, for names, classes and the number of source examples.
        seed: Seed of the t-SNE.
        path: File to write.

    Reference:
        - [van der Maaten and Hinton, 2008](https://jmlr.org/papers/v9/vandermaaten08a.html)
    """
    source, target = (classes for _, classes in _select_examples(domains))
    is_small = domains.num_classes <= 10
    palette = colormaps["tab10"] if is_small else colormaps["turbo"].resampled(domains.num_classes)
    is_unknown = target == UNKNOWN
    names = {n: name for n, name in enumerate(_get_class_names(domains)) if n in source}
    longest, width = max(map(len, names.values()), default=0), 4.8 * len(views)
    entries = []
    if longest > _MAX_NAME_IN_PANEL:
        entries = [Patch(color=palette(n), label=f"{n}: {name}") for n, name in names.items()]
        width += _CHARACTER_WIDTH * (longest + 8)
        names = {number: str(number) for number in names}
    figure = Figure(figsize=(width, 4.8), layout="constrained")
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    # Width and height of a name, as shares of the panel
    label_size = 0.023 * max(map(len, names.values()), default=0), 0.065
    steps = sorted(range(-40, 41), key=abs)  # half lines; 20 names cover fewer
    for axes, (title, features, predicted) in zip(panels, views, strict=True):
        axes.set(title=title, xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
        if not np.ptp(features, axis=0).any():  # t-SNE fails on identical points
            axes.set(title=f"{title}: identical features")
            continue
        points = _project(features, seed)
        circles, crosses = points[: len(source)], points[len(source) :]
        colors = _GRAY if domains.is_regression else palette(source)
        axes.scatter(*circles.T, s=20, facecolors="none", edgecolors=colors, linewidths=0.8)
        if not domains.is_regression:
            colors = palette(np.where(is_unknown, predicted, target))
        axes.scatter(*crosses.T, s=20, marker="x", color=colors, linewidths=0.8)
        size = label_size * np.ptp(points, axis=0)
        centers: list[np.ndarray] = []  # of the names
        for number, name in names.items():
            members = circles[source == number]
            # On an example, because the median may be between two clusters: on the medoid or the
            # next best, or above or below it, so that it covers no other name.
            members = members[np.argsort(cdist(members, members).sum(axis=0))]
            neighbors = np.reshape(centers, (-1, 2))
            moved = (members[0] + (0, step * size[1] / 2) for step in steps)
            places = [*members, *moved]
            centers.append(
                next(p for p in places if not (abs(neighbors - p) < size).all(axis=1).any())
            )
            box = _LABEL | {"edgecolor": palette(number)}
            axes.text(*centers[-1], name, size=11, ha="center", va="center", bbox=box)
    kind = "true or predicted" if is_unknown.any() else "true"
    kinds = "true", "predicted" if is_unknown.all() else kind
    for marker, name, kind in zip("ox", (domains.source, domains.target), kinds, strict=True):
        label = name if domains.is_regression else f"{name} (color: {kind} class)"
        panels[0].plot([], [], marker, color=_GRAY, fillstyle="none", label=label)
    figure.legend(loc="outside lower center", ncols=len(views), frameon=False)
    if entries:
        figure.legend(handles=entries, loc="outside right center", fontsize=9, frameon=False)
    figure.savefig(path, dpi=120)


def _project(features, seed):
    """Returns the t-SNE of features, `(n, 2)`."""
    options: dict[str, Any] = {"perplexity": min(30.0, (len(features) - 1) / 3)}
    options |= {"init": "pca" if features.shape[1] > 1 else "random", "random_state": seed}
    # Fewer iterations and a coarser approximation than by default, for half of the time.
    options |= {"early_exaggeration": 4.0, "learning_rate": 200.0, "max_iter": 350, "angle": 0.7}
    # Threads of t-SNE wait in a busy loop, which takes 10 times as long on shared cores.
    with threadpool_limits(1):
        return TSNE(**options).fit_transform(features / np.abs(features).max())
