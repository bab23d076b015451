"""Draws the figures of a diagnosis as SVG, readable in black and white."""

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from dann.diagnostics.catalogue import MAX_ALIGNED_ACCURACY, MIN_SEPARATED_ACCURACY


class Picture(NamedTuple):
    """A figure with a short name for its file.

    The caption describes the figure, also for readers who cannot see it.
    """

    name: str
    caption: str
    content: bytes
    image_format: str = "svg+xml"


def draw(measurements: Mapping[str, Any]) -> list[Picture]:
    """Draws the figures for which there are measurements."""
    pictures = []
    if np.isfinite(measurements.get("probe/accuracy", np.nan)):
        caption = "Accuracy of the discriminator and of a newly trained probe, with a 95% interval."
        pictures.append(Picture("probe", caption, _render_svg(_draw_probe, measurements)))
    if "game/eigenvalues/real" in measurements:
        caption = (
            "Eigenvalues of the vector field. At the current learning rate, plain gradient descent "
            "converges inside the dotted circle and diverges outside."
        )
        pictures.append(Picture("game", caption, _render_svg(_draw_eigenvalues, measurements)))
    return pictures


def _render_svg(draw_axes, measurements):
    figure, file = Figure(figsize=(5.2, 3.2), layout="constrained"), io.BytesIO()
    draw_axes(figure.subplots(), measurements)
    # A fixed salt and no date make the bytes reproducible.
    with matplotlib.rc_context({"svg.hashsalt": "dann", "font.size": 11}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _draw_probe(axes, m):
    names = {"probe": "probe/accuracy", "discriminator": "domain/accuracy"}
    bars = {label: m[name] for label, name in names.items() if name in m}
    axes.barh(list(bars), list(bars.values()), height=0.55, color="#8fb3d9", edgecolor="0.2")
    for row, value in enumerate(bars.values()):
        axes.text(0.02, row, f"{value:.0%}", va="center", fontsize=11)
    low, high, middle = (m[f"probe/{name}"] for name in ("low", "high", "accuracy"))
    axes.errorbar(middle, 0, xerr=[[middle - low], [high - middle]], color="0.1", capsize=4)
    for share, label in (
        (0.5, "chance"),
        (MAX_ALIGNED_ACCURACY, "aligned below"),
        (MIN_SEPARATED_ACCURACY, "not aligned above"),
    ):
        axes.vlines(share, -0.5, len(bars) - 0.5, color="0.3", linestyle=":")
        axes.text(share, len(bars) - 0.45, f"{label}\n{share:.0%}", ha="center", fontsize=8)
    axes.set(xlim=(0, 1), ylim=(-0.5, len(bars) - 0.1), xlabel="accuracy on the domains")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_eigenvalues(axes, m):
    real, imag = (np.asarray(m[f"game/eigenvalues/{part}"]) for part in ("real", "imag"))
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.axvline(0, color="0.7", linewidth=0.8)
    if step := m.get("game/step"):
        # |1 - step * mu| = 1 is a circle with the center and radius 1 / step.
        circle = {"fill": False, "color": "0.35", "linestyle": ":", "linewidth": 1.5}
        axes.add_patch(Circle((1 / step, 0), 1 / step, label="edge of stability", **circle))
    axes.plot(real, imag, "o", color="#1b4f8f", markerfacecolor="white", label="eigenvalue")
    limit = 1.15 * max(abs(real).max(), abs(imag).max(), 1e-12)
    axes.set(xlim=(min(-0.15 * limit, 1.15 * real.min()), limit), ylim=(-limit, limit))
    axes.set(xlabel="real part (right: attracts, left: repels)", ylabel="imaginary part (rotates)")
    axes.legend(fontsize=8, loc="lower right")
