"""Figure of training images of both domains."""

import pathlib

import numpy as np
from matplotlib.figure import Figure

from dann.data import DomainPair

_LABEL = {"facecolor": "white", "alpha": 0.7, "pad": 0.5}


def save_samples(domains: DomainPair, path: str | pathlib.Path) -> None:
    """Draws training images of both domains, in two rows of ten.

    Images of the source show their class. Training does not use labels of the target.

    Nothing is drawn if the inputs are not images `(height, width, 1 or 3)`.

    Args:
        domains: The data.
        path: File to write.
    """
    if len(domains.input_shape) != 3 or domains.input_shape[-1] not in (1, 3):
        return
    tiled = []
    for images in (domains.source_train[0], domains.target_train):
        indices = np.linspace(0, len(images) - 1, 20).astype(int)
        tiled.append(_tile(np.stack([np.asarray(images[index]) for index in indices])))
    height, width = tiled[0].shape[:2]
    height = 2 * (5 * height / width + 0.27)  # inches, with the titles
    figure = Figure(figsize=(5, min(height, 10)), layout="constrained")
    panels = figure.subplots(2, 1)
    for axes, domain, image in zip(panels, ("source", "target"), tiled, strict=True):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        axes.set_title(f"{getattr(domains, domain)} ({domain})", fontsize=10)
        axes.axis("off")
    if not domains.is_regression:
        labels, names = domains.source_train[1], domains.class_names or range(domains.num_classes)
        height, width = (size + size // 8 + 1 for size in domains.input_shape[:2])  # with a gap
        for place, index in enumerate(np.linspace(0, len(labels) - 1, 20).astype(int)):
            name, corner = str(names[labels[index]]), (place % 10 * width, place // 10 * height)
            panels[0].text(*corner, name[:10], size=5, va="top", bbox=_LABEL)
    figure.savefig(path, dpi=200)


def _tile(images):
    """Returns images `(20, height, width, 1 or 3)` as one image in [0, 1], with white gaps.

    If a value is above 1, the images are taken to be in [0, 255]. If a value is negative, the
    images are standardized, and their smallest and largest value become 0 and 1.
    """
    height, width = images.shape[1:3]
    scaled = images / 255 if images.max() > 1 else images
    if images.min() < 0:
        scaled = (images - images.min()) / (np.ptp(images) or 1)
    gaps = (0, 0), (0, height // 8 + 1), (0, width // 8 + 1), (0, 0)
    tiles = np.pad(scaled, gaps, constant_values=1)
    rows = [np.concatenate(list(row), axis=1) for row in (tiles[:10], tiles[10:])]
    return np.concatenate(rows)[: -gaps[1][1], : -gaps[2][1]]
