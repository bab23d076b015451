"""The figures of a run, as PNG files at `path`. They are readable without colour."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from threadpoolctl import threadpool_limits

from dann.data import DomainPair
from dann.training.run_callbacks import HostModel

_POINTS = 100  # of each domain in the view of the features
_NAMED = 20  # largest number of classes for which a matrix shows numbers and names
_SOURCE = {"color": "#1b4f8f", "marker": "o", "facecolors": "none"}
_TARGET = {"color": "#e0701b", "marker": "x"}


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
    height, width, channels = images.shape[1:]
    scaled = images / 255 if images.max() > 1 else images
    gaps = (0, 0), (0, height // 8 + 1), (0, width // 8 + 1), (0, 0)
    tiles = np.pad(scaled, gaps, constant_values=1)
    _, height, width, _ = tiles.shape
    rows = tiles.reshape(2, 10, height, width, channels).swapaxes(1, 2)
    return rows.reshape(2 * height, 10 * width, channels)


def save_curves(
    history: Mapping[str, Sequence[float]], steps_per_epoch: int, path: str | pathlib.Path
) -> None:
    """Shows the losses, the discriminator's accuracy and the strength over the steps.

    Args:
        history: The values of each epoch by name, as in Keras's `History.history`.
        steps_per_epoch: Training steps in an epoch.
    """
    panels = [
        ("loss (nats)", {"label/loss": "-", "domain/loss": "--"}, None),
        ("accuracy in training", {"accuracy": "-", "domain/accuracy": "--"}, (0, 1.02)),
        ("strength of the reversal", {"strength": "-"}, None),
    ]
    panels = [panel for panel in panels if any(name in history for name in panel[1])]
    figure = Figure(figsize=(4 * len(panels), 3), layout="constrained")
    for axes, (label, lines, limits) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for name, style in lines.items():
            if name in history:
                steps = steps_per_epoch * np.arange(1, len(history[name]) + 1)
                axes.plot(steps, history[name], style, label=name)
        if "domain/loss" in lines and "domain/loss" in history:
            axes.axhline(np.log(2), color="0.6", linewidth=0.8, label="chance, log 2")
        axes.set(xlabel="training step", ylabel=label, ylim=limits)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def save_confusion(
    domains: DomainPair, predicted: Mapping[str, np.ndarray], path: str | pathlib.Path
) -> None:
    """Shows the confusion matrices of both test sets, as shares of each true class.

    With more than 20 classes it omits the numbers in the cells and the names on the axes.

    Args:
        domains: The data.
        predicted: Class numbers predicted for the test sets that have labels, by `"source"` and
            `"target"`.
    """
    classes, few = np.arange(domains.num_classes), domains.num_classes <= _NAMED
    names = domains.class_names if few and domains.class_names else classes
    side = max(5.0, 0.45 * len(classes)) if few else 6.0
    figure = Figure(figsize=(len(predicted) * side, side + 0.5), layout="compressed")
    tests = {"source": domains.source_test, "target": domains.target_test}
    panels = figure.subplots(1, len(predicted), squeeze=False)[0]
    for axes, domain in zip(panels, predicted, strict=True):
        labels = tests[domain][1]
        shares = confusion_matrix(labels, predicted[domain], labels=classes, normalize="true")
        ConfusionMatrixDisplay(shares, display_labels=names).plot(
            ax=axes,
            cmap="Greys",
            include_values=few,
            values_format=".2f",
            xticks_rotation="vertical",
            colorbar=False,
            im_kw={"vmin": 0, "vmax": 1},
            text_kw={"fontsize": 7},
        )
        accuracy = np.mean(predicted[domain] == labels)
        axes.set(title=f"{getattr(domains, domain)}, test set: {accuracy:.1%} right")
        axes.set(xlabel="predicted class", ylabel="class")
        if not few:
            axes.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=120)


def features_of(host: HostModel, domains: DomainPair) -> np.ndarray:
    """Computes the features of up to 100 test inputs of each domain, the source's first.

    Returns:
        Array `(n + m, num_features)`.
    """
    parts = [inputs[_shown(inputs)] for inputs, _ in (domains.source_test, domains.target_test)]
    return host.predict(host.model.backbone, np.concatenate(parts))


def _shown(inputs):
    """Indices of the examples to show, spread over the set, which may be sorted by class."""
    return np.linspace(0, len(inputs) - 1, min(len(inputs), _POINTS)).astype(int)


def save_features(
    views: Sequence[tuple[str, np.ndarray]],
    domains: DomainPair,
    seed: int,
    path: str | pathlib.Path,
) -> None:
    """Shows features of both domains in two dimensions, by t-SNE, one panel for each view.

    Args:
        views: Title and features, as `features_of` returns them.
        domains: The data, for the names and the count of source examples.
        seed: Seed of the t-SNE.

    Reference:
        - [van der Maaten and Hinton, 2008](https://jmlr.org/papers/v9/vandermaaten08a.html)
    """
    size = len(_shown(domains.source_test[0]))
    figure = Figure(figsize=(5 * len(views), 4.8), layout="constrained")
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    for axes, (title, features) in zip(panels, views, strict=True):
        axes.set(title=title, xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
        if not np.ptp(features, axis=0).any():  # t-SNE would crash
            axes.text(0.5, 0.5, "all alike: the features collapsed", ha="center")
            continue
        perplexity = min(30.0, (len(features) - 1) / 3)
        init = "pca" if features.shape[1] > 1 else "random"
        # Half of scikit-learn's iterations take half its time, for a divergence 3% higher.
        tsne = TSNE(perplexity=perplexity, init=init, random_state=seed, max_iter=500)
        # Its threads wait for each other in a busy loop: 10 times slower where cores are shared.
        with threadpool_limits(1):
            points = tsne.fit_transform(features / np.abs(features).max())
        axes.scatter(*points[:size].T, s=14, linewidths=0.7, label=domains.source, **_SOURCE)
        axes.scatter(*points[size:].T, s=14, linewidths=0.7, label=domains.target, **_TARGET)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
