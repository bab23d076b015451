"""The figures of a run, as PNG files at `path`. They are readable without colour."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import confusion_matrix
from threadpoolctl import threadpool_limits

from dann.data import DomainPair
from dann.data.domain_pair import UNKNOWN
from dann.training.run_callbacks import HostModel

_POINTS = 500  # of each domain in the view of the features
_NAMED = 20  # largest number of classes for which figures show names and numbers
_GREY = "0.35"
_LABEL = {"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.6, "linewidth": 0}


def save_samples(domains: DomainPair, path: str | pathlib.Path) -> None:
    """Shows training images of both domains, two rows of ten each.

    Inputs that are not images, `(height, width, 1 or 3)`, get no figure.
    """
    if len(domains.input_shape) != 3 or domains.input_shape[-1] not in (1, 3):
        return
    rows = [(domains.source, domains.source_train[0]), (domains.target, domains.target_train)]
    figure = Figure(figsize=(8, 3.9), layout="constrained")
    for axes, (name, images) in zip(figure.subplots(2, 1), rows, strict=True):
        chosen = np.linspace(0, len(images) - 1, 20).astype(int)
        shown = np.stack([np.asarray(images[index]) for index in chosen])
        axes.imshow(_in_two_rows(shown), cmap="gray", vmin=0, vmax=1)
        axes.set_title(name, fontsize=10)
        axes.axis("off")
    figure.savefig(path, dpi=120)


def _in_two_rows(images):
    """Images `(20, height, width, 1 or 3)` as one, in two rows, with white lines between them.

    Numbers above 1 are taken for those from 0 to 255; the result has those from 0 to 1.
    """
    height, width = images.shape[1:3]
    scaled = images / 255 if images.max() > 1 else images
    gaps = (0, 0), (0, height // 8 + 1), (0, width // 8 + 1), (0, 0)
    tiles = np.pad(scaled, gaps, constant_values=1)
    return np.concatenate([np.concatenate(list(row), axis=1) for row in (tiles[:10], tiles[10:])])


def save_curves(
    history: Mapping[str, Sequence[float]], steps_per_epoch: int, path: str | pathlib.Path
) -> None:
    """Shows the losses, the accuracies in training and the strength over the steps.

    Args:
        history: The values of each epoch by name, as in Keras's `History.history`.
        steps_per_epoch: Training steps in an epoch.
    """
    panels = [
        ("loss (nats)", "label/loss", "domain/loss"),
        ("accuracy in training", "accuracy", "domain/accuracy"),
        ("strength of the reversal", "strength"),
    ]
    panels = [panel for panel in panels if not history.keys().isdisjoint(panel)]
    figure = Figure(figsize=(4 * len(panels), 3.2), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, *names) in zip(grid, panels, strict=True):
        for name, style, told in zip(
            names, ("o-", "s--"), ("labels", "discriminator"), strict=False
        ):
            if name in history:
                steps = steps_per_epoch * np.arange(1, len(history[name]) + 1)
                axes.plot(steps, history[name], style, markersize=3, label=told)
        if "domain/accuracy" in names and "domain/accuracy" in history:
            axes.axhline(0.5, color="0.6", linestyle=":", label="its chance level")
        axes.set(xlabel="training step", ylabel=label, xlim=(0, None))
        axes.set_ylim(0, 1.02 if "accuracy" in names else None)
        if len(names) > 1:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    figure.savefig(path, dpi=120)


def save_confusion(
    domains: DomainPair, predicted: Mapping[str, np.ndarray], path: str | pathlib.Path
) -> None:
    """Shows the confusion matrices of both test sets, in percent of each true class.

    Cells that are 0 stay blank. With more than 20 classes it omits the numbers in the cells and
    the names on the axes.

    Args:
        domains: The data.
        predicted: Class numbers predicted for the test sets that have labels, by `"source"` and
            `"target"`.
    """
    classes, names = np.arange(domains.num_classes), _class_names(domains)
    side = max(5.0, 0.45 * len(names)) if names else 6.0
    figure = Figure(figsize=(len(predicted) * side, side + 0.5), layout="compressed")
    tests = {"source": domains.source_test, "target": domains.target_test}
    panels = figure.subplots(1, len(predicted), squeeze=False)[0]
    for axes, domain in zip(panels, predicted, strict=True):
        labels = tests[domain][1]
        shares = confusion_matrix(labels, predicted[domain], labels=classes, normalize="true")
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.2)  # the darkest is not black
        for row, column in np.argwhere(shares) if names else []:
            share = 100 * shares[row, column]
            color, text = "white" if share > 60 else "black", f"{share:.0f}" if share >= 1 else "<1"
            axes.text(column, row, text, color=color, ha="center", va="center")
        accuracy = np.mean(predicted[domain] == labels)
        axes.set(title=f"{getattr(domains, domain)}, test set: {accuracy:.1%} right")
        axes.set(xlabel="predicted class, % of the true class", ylabel="true class")
        turn = 90 if len("".join(names)) > 40 else 0  # more than fits side by side
        axes.set_xticks(range(len(names)), names, rotation=turn)
        axes.set_yticks(range(len(names)), names)
    figure.savefig(path, dpi=120)


def _class_names(domains):
    """The names of few classes."""
    if domains.num_classes > _NAMED:
        return []
    return domains.class_names or [str(number) for number in range(domains.num_classes)]


def features_of(host: HostModel, domains: DomainPair) -> np.ndarray:
    """Computes the features of up to 500 examples of each domain, the source's first.

    They are test examples and, where these are fewer, training examples.

    Returns:
        Array `(n + m, num_features)`.
    """
    inputs = [inputs for inputs, _ in _shown(domains)]
    return host.predict(host.model.backbone, np.concatenate(inputs))


def _shown(domains):
    """Inputs and classes of the examples to show, of the source and of the target; -1: unknown."""
    source = _spread(domains.source_test, domains.source_train)
    return source, _spread(domains.target_test, (domains.target_train, None))


def _spread(*sets):
    """Examples spread over the sets, which may be sorted by class, of the first as many as fit."""
    parts, room = [], _POINTS
    for inputs, labels in sets:
        count = min(len(inputs), room)
        room -= count
        places = np.linspace(0, len(inputs) - 1, count).astype(int)
        classes = np.full(count, UNKNOWN) if labels is None else np.asarray(labels)[places]
        if count:
            parts.append((inputs[places], classes))
    inputs, classes = zip(*parts, strict=True)
    return np.concatenate(inputs), np.concatenate(classes)


def save_features(
    views: Sequence[tuple[str, np.ndarray]],
    domains: DomainPair,
    seed: int,
    path: str | pathlib.Path,
) -> None:
    """Shows features of both domains in two dimensions, by t-SNE, one panel for each view.

    The source is circles and the target crosses, coloured by class; target examples without
    labels, as all of the training set, are grey.

    Args:
        views: Title and features, as `features_of` returns them.
        domains: The data, for names, classes and the count of source examples.
        seed: Seed of the t-SNE.

    Reference:
        - [van der Maaten and Hinton, 2008](https://jmlr.org/papers/v9/vandermaaten08a.html)
    """
    shown, target = (classes for _, classes in _shown(domains))
    palette = colormaps["tab10" if domains.num_classes <= 10 else "turbo"]
    palette = palette.resampled(domains.num_classes)
    color = [_GREY if number == UNKNOWN else palette(number) for number in target]
    figure = Figure(figsize=(5.5 * len(views), 5.5), layout="constrained")
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    for axes, (title, features) in zip(panels, views, strict=True):
        axes.set(title=title, xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
        if not np.ptp(features, axis=0).any():  # t-SNE would crash
            axes.annotate("all alike: collapsed", (0.5, 0.5), xycoords="axes fraction", ha="center")
            continue
        points = _flattened(features, seed)
        circles, crosses = points[: len(shown)], points[len(shown) :]
        axes.scatter(*circles.T, s=14, facecolors="none", edgecolors=palette(shown), linewidths=0.8)
        axes.scatter(*crosses.T, s=14, marker="x", color=color, linewidths=0.8)
        for number, name in enumerate(_class_names(domains)):  # amid its source examples
            if number in shown:
                place = np.median(circles[shown == number], axis=0)
                axes.text(*place, name, size=9, ha="center", va="center", bbox=_LABEL)
    for marker, domain in (("o", domains.source), ("x", domains.target)):
        panels[0].plot([], [], marker, color=_GREY, fillstyle="none", label=domain)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=120)


def _flattened(features, seed):
    """The t-SNE of features; these settings come as far as the usual ones in half their time."""
    options: dict[str, Any] = {"perplexity": min(30.0, (len(features) - 1) / 3)}
    options |= {"init": "pca" if features.shape[1] > 1 else "random", "random_state": seed}
    options |= {"early_exaggeration": 4.0, "learning_rate": 200.0, "max_iter": 350, "angle": 0.7}
    # Its threads wait for each other in a busy loop: 10 times slower where cores are shared.
    with threadpool_limits(1):
        return TSNE(**options).fit_transform(features / np.abs(features).max())
