"""The figures of a diagnosis, as SVG. All can be read in black and white."""

import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from dann.diagnostics.catalogue import APART

_SOURCE = {"color": "#1b4f8f", "marker": "o", "markerfacecolor": "white"}
_TARGET = {"color": "#e0701b", "marker": "x", "linestyle": "--"}
_ROUNDING = 1e-6  # of the largest singular value
_STYLES = {"source": _SOURCE, "target": _TARGET}


class Picture(NamedTuple):
    """A figure as SVG, with a short name for its file.

    The caption says what it shows, also to readers who cannot see it.
    """

    name: str
    caption: str
    svg: bytes


def draw(measurements: Mapping[str, Any]) -> list[Picture]:
    """Draws the figures for which there are measurements."""
    pictures = []
    for name, (caption, painter) in _PAINTERS.items():
        figure = Figure(figsize=(5.2, 3.6), layout="constrained")
        if painter(figure.subplots(), measurements):
            pictures.append(Picture(name, caption, _svg(figure)))
    return pictures


def _svg(figure):
    file = io.BytesIO()
    # The same numbers give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "dann", "font.size": 11}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _finite(values):
    return np.where(np.isfinite(values), values, np.nan)


def _discriminators(axes, found):
    names = {"domain": "live", "probe": "fresh", "probe/matched": "fresh, matched"}
    losses = {
        label: found.get(f"{name}_loss" if "/" in name else f"{name}/loss")
        for name, label in names.items()
    }
    shown = {label: loss for label, loss in losses.items() if loss is not None}
    if not shown:
        return False
    bars = axes.bar(list(shown), _finite(list(shown.values())), color="#8fb3d9", edgecolor="0.2")
    axes.bar_label(bars, fmt="%.2f", fontsize=9)
    axes.axhline(np.log(2), color="0.3", linestyle=":", label="knows nothing, log 2")
    axes.axhline(APART, color="0.3", linestyle="--", label="below: the domains are apart")
    axes.set(ylabel="loss of the discriminator (nats)")
    axes.margins(y=0.25)
    axes.legend(fontsize=8, loc="upper right")
    return True


def _eigenvalues(axes, found):
    if "game/eigenvalues/real" not in found:
        return False
    real = np.asarray(found["game/eigenvalues/real"])
    imag = np.asarray(found["game/eigenvalues/imag"])
    shown = np.isfinite(real) & np.isfinite(imag)
    real, imag = real[shown], imag[shown]
    if not len(real):
        return False
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.axvline(0, color="0.7", linewidth=0.8)
    reach = 1.15 * max(abs(real).max(), abs(imag).max(), 1e-12)
    step = found.get("game/step")
    if step:
        axes.add_patch(
            Circle((1 / step, 0), 1 / step, fill=False, color="0.35", linestyle=":", linewidth=1.5)
        )
        axes.plot([], [], ":", color="0.35", label="edge of stability at this step")
    axes.plot(real, imag, "o", color="#1b4f8f", markerfacecolor="white", label="eigenvalue")
    axes.set(xlabel="real part: pulls in (right), pushes away (left)", ylabel="imaginary: turns")
    axes.set(xlim=(min(-0.15 * reach, 1.15 * real.min()), reach), ylim=(-reach, reach))
    axes.legend(fontsize=8)
    return True


def _gains(axes, found):
    for domain, style in _STYLES.items():
        prefix = f"signal/{domain}/"
        gains = {
            name.removeprefix(prefix).removesuffix("/gain"): value
            for name, value in found.items()
            if name.startswith(prefix) and name.endswith("/gain")
        }
        values = _finite(list(gains.values()))
        if (values > 0).any():
            axes.plot(range(len(gains)), values, label=domain, **style)
            _name_ticks(axes, gains)
    if not axes.lines:
        return False
    low, high = axes.get_ylim()
    if low <= 0 or high / low > 20:
        axes.set_yscale("log")
    axes.set(ylabel="gain from here to the features")
    axes.legend(fontsize=8)
    return True


def _singular_values(axes, found):
    for domain, style in _STYLES.items():
        values = found.get(f"jacobian/{domain}/features/singular_values")
        if values is None:
            return False
        values = _finite(np.asarray(values, "float64"))
        values = values[values > _ROUNDING * np.nanmax(values, initial=0.0)]
        every = max(1, len(values) // 12)
        axes.plot(range(1, len(values) + 1), values, label=domain, markevery=every, **style)
    axes.set_yscale("log")
    axes.set(xlabel="direction", ylabel="singular value")
    axes.legend(fontsize=8)
    return True


def _name_ticks(axes, names):
    short = [name if len(name) <= 16 else f"{name[:7]}…{name[-8:]}" for name in names]
    # A dollar in a layer's name must not start a formula.
    axes.set_xticks(range(len(short)), short, rotation=60, ha="right", fontsize=8, parse_math=False)


_PAINTERS: dict[str, tuple[str, Callable[[Any, Mapping], bool]]] = {
    "discriminators": (
        "Loss of the live discriminator, and of a fresh one trained on the same features. Matched: "
        "on source examples in the target's class shares.",
        _discriminators,
    ),
    "game": (
        "Eigenvalues of the game's vector field. A step of plain gradient descent at the current "
        "learning rate shrinks directions within the dotted circle, which looks like a line if it "
        "is large, and grows those outside.",
        _eigenvalues,
    ),
    "gains": (
        "How strongly the features follow the output of each layer. A line that rises or falls by "
        "orders of magnitude is a derivative that explodes or vanishes.",
        _gains,
    ),
    "singular_values": (
        "Mean singular values of the Jacobian of the features by the inputs, the largest first. A "
        "steep fall means that the features follow few directions of the input.",
        _singular_values,
    ),
}
